# SPDX-License-Identifier: Apache-2.0
"""A history under load: many writers at once, and writers that are killed.

    python tests/roofreport/helpers/history_load.py writers WHERE --processes=8 --runs=50
    python tests/roofreport/helpers/history_load.py kills WHERE

The tests call it with small numbers. It prints what it found as JSON, and its exit status is 1 where a run is lost.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "tools")]

from builders import document, row
from roofreport.history.keeping import faults
from roofreport.history.record import of_file
from roofreport.history.store import open_store
from sqlalchemy import event

_FIRST_NIGHT = datetime(2025, 1, 1, 2, tzinfo=timezone.utc)
_CASES = 3


def case(number: int) -> str:
    return f"matmul/impl:eager/dtype:fp32/n:{number + 1}"


def write_run(folder: Path, number: int) -> Path:
    """A result that no other number has."""
    noise = random.Random(number)
    rows = [row(case(index), (1.0 + index) * noise.gauss(1.0, 0.02)) for index in range(_CASES)]
    path = folder / f"{number}.json"
    night = (_FIRST_NIGHT + timedelta(days=number)).isoformat()
    path.write_text(json.dumps(document(rows, date=night)))
    return path


def forked(work: Callable[[], None]) -> int:
    """The number of a process that does it and ends."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def writers(where: str, folder: Path, processes: int, runs: int) -> dict[str, Any]:
    """Each adds its own runs, twice, and all of them one shared run, starting without a history."""
    shared = write_run(folder, processes * runs)

    def work(writer: int) -> None:
        for number in range(writer * runs, (writer + 1) * runs):
            path = write_run(folder, number)
            for _ in range(2):
                with open_store(where, create=True) as store:
                    store.add(of_file(path))
                    store.add(of_file(shared))

    began = time.monotonic()
    children = [forked(lambda writer=writer: work(writer)) for writer in range(processes)]  # type: ignore[misc]
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    with open_store(where) as store:
        names = [run.name for run in store.runs()]
        wrong = list(faults(store))
        readings = sum(map(len, store.history("time").values()))
    return {
        "failed": failed,
        "runs": len(names),
        "lost": processes * runs + 1 - len(set(names)),
        "doubled": len(names) - len(set(names)),
        "readings_missing": _CASES * len(names) - readings,
        "faults": wrong,
        "seconds": round(time.monotonic() - began, 1),
    }


def _add_and_die(where: str, path: Path, statement: int) -> None:
    """Adds it, and is killed before the so-manieth statement."""
    left = statement
    with open_store(where, create=True) as store:

        @event.listens_for(store.database.engine, "before_cursor_execute")
        @event.listens_for(store.database.engine, "commit")
        def _(*_: object) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        store.add(of_file(path))


def _check_after_kill(where: str, path: Path, before: int) -> list[str]:
    with open_store(where, create=True) as store:
        wrong = list(faults(store))
        if len(store.runs()) not in (before, before + 1):
            wrong.append(f"{len(store.runs())} runs where {before} or one more were")
        store.add(of_file(path))
        if len(store.runs()) != before + 1:
            wrong.append("the same add did not complete it")
        return wrong + list(faults(store))


def kills(where: str, folder: Path) -> dict[str, Any]:
    """Before each statement of an add, and before its commit."""
    wrong: list[str] = []
    killed = 0
    for statement in range(1, 1000):
        path = write_run(folder, statement)
        child = forked(lambda path=path, statement=statement: _add_and_die(where, path, statement))  # type: ignore[misc]
        died = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        wrong += _check_after_kill(where, path, statement - 1)
        if not died:
            break
        killed += 1
    return {"killed": killed, "faults": wrong}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("writers", "kills"))
    parser.add_argument("where", help="where no history is yet: a file, or the URL of an empty database")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--runs", type=int, default=50)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        if args.what == "writers":
            found = writers(args.where, folder, args.processes, args.runs)
        else:
            found = kills(args.where, folder)
    print(json.dumps(found))
    bad = found["faults"] or any(found.get(key) for key in ("failed", "lost", "doubled", "readings_missing"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
