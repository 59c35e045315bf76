#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long tools/report gate takes over a year of nightly runs, without second runs.

    PYTHONPATH=tools .venv/bin/python tests/oracles/time_gate.py HISTORY

HISTORY: as tests/roofreport/helpers/history_load.py year makes it; its runs become one nightly run each. Prints wall
and CPU seconds of three processes. Exit status 1: the best took more than five seconds of CPU time.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

from roofreport.history import tables
from roofreport.history.store import open_store
from sqlalchemy import select

ROOT = Path(__file__).resolve().parents[2]
MOST = 5.0


def spread_over_nights(where: str) -> int:
    with open_store(where) as store, store.database.writing() as connection:
        numbers = connection.execute(select(tables.runs.c.id).order_by(tables.runs.c.id)).scalars().all()
        for night, number in enumerate(numbers):
            begin = datetime(2025, 1, 1, 2) + timedelta(days=night)
            connection.execute(tables.runs.update().where(tables.runs.c.id == number).values(started=begin))
    return len(numbers)


def main() -> int:
    where = sys.argv[1]
    print(f"{spread_over_nights(where)} nights")
    best = float("inf")
    for _ in range(3):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        command = [str(ROOT / "tools/report"), "gate", f"--store={where}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{time.monotonic() - start:.1f} s wall, {cpu:.1f} s CPU: {done.stdout.splitlines()[-1]}")
        best = min(best, cpu)
    return int(best > MOST)


if __name__ == "__main__":
    sys.exit(main())
