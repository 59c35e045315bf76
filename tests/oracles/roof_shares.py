#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether native bandwidth kernels stay below the roof that is measured beside them, in many processes.

For a quiet machine. Prints the median, least and most share of each case over the processes, those that the program
leaves out as disturbed included, and how many it left out. Exits with 1 if a median is above the limit; or, with
--busy, which starts a loop for each processor, if any share that was told is above what the program takes for possible.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
MOST_SHARE = 1.05  # kMostShare of lib/run/measuring.cc
CASES = (
    "gather_gemv/impl:native/precision:(bf16|int8)/n:(4096|8192)",
    "gemv/impl:native/precision:(bf16|int8)/n:(4096|8192)",
    "adamw/impl:native/parameters:10000000",
    "(layer_norm|rms_norm|softmax)/impl:native/dtype:(bf16|fp32)/d:4096",
    "gelu/impl:native/dtype:(bf16|fp32)/elements:16777216",
    "(silu_mul|rope)/impl:native/.*",
)


class Shares(NamedTuple):
    """Roof shares of one case in one process."""

    measured: float
    told: bool  # not left out as disturbed


def shares(program: Path, cases: str, seconds: float) -> dict[str, Shares]:
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        command = [
            str(program),
            f"--benchmark_filter={cases}",
            "--suite=standard",
            "--check=off",
            f"--max_time={seconds}",
            f"--journal={journal}",
        ]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if not journal.exists():
            sys.exit(f"{program} ended with {done.returncode}; why is said above")
        rows = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    return {
        row["name"]: Shares(statistics.median(row["roof"]["ratios"]), "roof" in row["counters"])
        for row in rows
        if row.get("roof", {}).get("ratios")
    }


@contextlib.contextmanager
def loops(count: int) -> Iterator[None]:
    """Programs that do nothing but use a processor each."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "release" / "bin" / "roofbench")
    parser.add_argument("--filter", default=f"^({'|'.join(CASES)})$", help="the cases, of suite standard")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.1, help="of samples a case")
    parser.add_argument("--limit", type=float, default=1.03, help="highest median share that passes")
    parser.add_argument("--busy", action="store_true", help="beside a loop for each processor")
    parser.add_argument("--append", type=Path, help="also add a line of JSON a run, and judge all that the file has")
    arguments = parser.parse_args()
    runs = []
    with loops(len(os.sched_getaffinity(0)) if arguments.busy else 0):
        for _ in range(arguments.runs):
            runs.append(shares(arguments.program, arguments.filter, arguments.seconds))
            if arguments.append:
                with arguments.append.open("a") as file:
                    file.write(json.dumps(runs[-1]) + "\n")
    if arguments.append:
        lines = [json.loads(line) for line in arguments.append.read_text().splitlines()]
        runs = [{name: Shares(*share) for name, share in line.items()} for line in lines]
    passed = True
    print(f"{'median':>7} {'least':>7} {'most':>7} {'out':>5}   of {len(runs)} runs")
    for name in dict.fromkeys(name for run in runs for name in run):
        found = [run[name] for run in runs if name in run]
        values = [share.measured for share in found]
        told = [share.measured for share in found if share.told]
        median = statistics.median(values)
        judged, limit = (max(told, default=0), MOST_SHARE) if arguments.busy else (median, arguments.limit)
        passed = passed and judged <= limit
        print(
            f"{median:7.3f} {min(values):7.3f} {max(values):7.3f} {len(values) - len(told):5}   {name}"
            + ("" if judged <= limit else f"   above {limit}")
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
