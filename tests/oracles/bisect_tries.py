#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often tools/report bisect finds +10 % among 12 commits, of a program that really takes the time.

    PYTHONPATH=tools:tests/roofreport/helpers .venv/bin/python tests/oracles/bisect_tries.py [TRIES]

One of the other commits does not build. The machine may be busy: the test includes that. Exit status 1: missed one.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import scratch_repository
from scratch_repository import BUILD, CASE, PROGRAM

ROOT = Path(__file__).resolve().parents[2]
COMMITS = 12


def tried(folder: Path, number: int) -> bool:
    chance = random.Random(number)
    plant = chance.randrange(COMMITS)
    # Neither the injected fault nor the commit before it: without one of them the search could only name both.
    broken = chance.choice([i for i in range(COMMITS - 1) if i not in (plant - 1, plant)])
    made = scratch_repository.make(folder / "repository", COMMITS, plant, broken, scratch_repository.timed_starter())
    command = [str(ROOT / "tools/report"), "bisect", "good", "HEAD", f"--filter={CASE}", f"--build={BUILD}"]
    command += [f"--program={PROGRAM}", f"--repository={made.path}", f"--state={folder / 'state'}"]
    command += ["--budget=60s", "--max-time=0.2"]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = done.returncode == 0 and f"commit {made.planted[:12]} " in done.stdout
    print(
        f"try {number}: {'found' if found else 'MISSED'} commit {plant + 1} of {COMMITS}, commit {broken + 1} broken,",
        end=" ",
    )
    print(f"{time.monotonic() - start:.0f} s")
    print(done.stdout if found else done.stdout + done.stderr, flush=True)
    return found


def main() -> int:
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    found = 0
    for number in range(tries):
        with tempfile.TemporaryDirectory() as folder:
            found += tried(Path(folder), number)
    print(f"{found} of {tries}")
    return int(found < tries)


if __name__ == "__main__":
    sys.exit(main())
