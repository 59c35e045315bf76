#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the repeatability of roofbench's medians against plain Google Benchmark's means on the same steps.

    tests/oracles/compare_spread.py [--processes=20] [--bin=build/release/bin]

Fresh processes in the order A B B A …; of each step the spread p95/p5 over the processes, and the wall time of a
process. Exits with 1 if a spread of ours is larger, or if ours take more wall time. A benchmark: run it on a machine
where nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The step in plain Google Benchmark, and the case of the suite.
STEPS = {
    "Matmul/512/real_time": "matmul/impl:eager/dtype:fp32/n:512",
    "Gelu/16777216/real_time": "gelu/dtype:bf16/elements:16777216",
    "Copy/268435456/real_time": "copy/impl:eager/bytes:268435456",
}


def run(command: list[str], out: Path) -> tuple[dict[str, float], float]:
    """Milliseconds by name, and the wall seconds of the process."""
    start = time.perf_counter()
    subprocess.run(
        [*command, f"--benchmark_out={out}"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wall = time.perf_counter() - start
    rows = json.loads(out.read_text())["benchmarks"]
    milliseconds = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
    return {row["name"]: row["real_time"] * milliseconds[row["time_unit"]] for row in rows}, wall


def spread(values: list[float]) -> float:
    """95th percentile over 5th, by linear interpolation."""
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return cuts[-1] / cuts[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin")
    arguments = parser.parse_args()
    cases = "|".join(name for name in STEPS.values())
    commands = {
        "plain": [str(arguments.bin / "plain_benchmark")],
        # Without the check, which plain Google Benchmark lacks as well.
        "ours": [str(arguments.bin / "roofbench"), f"--benchmark_filter=^({cases})$", "--check=off"],
    }
    times: dict[str, list[dict[str, float]]] = {"plain": [], "ours": []}
    walls: dict[str, list[float]] = {"plain": [], "ours": []}
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(arguments.processes):
            for which in ("plain", "ours") if pair % 2 == 0 else ("ours", "plain"):
                result, wall = run(commands[which], Path(folder) / "out.json")
                times[which].append(result)
                walls[which].append(wall)
    failed = False
    print(f"{'step':28} {'plain p95/p5':>13} {'ours p95/p5':>13} {'plain median':>13} {'ours median':>13}")
    for plain_name, our_name in STEPS.items():
        plain = [result[plain_name] for result in times["plain"]]
        ours = [result[our_name] for result in times["ours"]]
        failed |= spread(ours) > spread(plain)
        print(
            f"{plain_name:28} {spread(plain):13.3f} {spread(ours):13.3f}"
            f" {statistics.median(plain):10.3f} ms {statistics.median(ours):10.3f} ms"
        )
    plain_wall, our_wall = statistics.median(walls["plain"]), statistics.median(walls["ours"])
    failed |= our_wall > plain_wall
    print(f"wall time of a process: plain {plain_wall:.2f} s, ours {our_wall:.2f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
