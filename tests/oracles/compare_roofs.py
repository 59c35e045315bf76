#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the oracle (roof_loops) and the product (roof_meter_main) in turn and compares the roofs they find.

A shared machine changes speed within minutes, so each round runs both, in alternating order, and only ratios within a
round count. Exits with 1 if the median ratio product / oracle of any roof is below the limit, with 77 (skipped) if the
oracle cannot run here.
"""

import argparse
import json
import statistics
import subprocess
import sys

SKIPPED = 77


def run(program: str, seconds: float, threads: int) -> dict[str, float]:
    command = [program, str(seconds)] + ([str(threads)] if threads else [])
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if finished.returncode == SKIPPED:
        sys.exit(SKIPPED)
    if finished.returncode != 0:
        sys.exit(f"{program} failed with exit code {finished.returncode}")
    rates: dict[str, float] = json.loads(finished.stdout)
    return rates


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oracle", help="the program roof_loops")
    parser.add_argument("meter", help="the program roof_meter_main")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2, help="for each program in each round")
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--limit", type=float, default=0.95, help="lowest median ratio that passes")
    arguments = parser.parse_args()

    ratios: dict[str, list[float]] = {}
    for round_number in range(arguments.rounds):
        programs = {"oracle": arguments.oracle, "meter": arguments.meter}
        order = list(programs) if round_number % 2 == 0 else list(reversed(programs))
        rates = {name: run(programs[name], arguments.seconds, arguments.threads) for name in order}
        for roof, oracle_rate in rates["oracle"].items():
            ratios.setdefault(roof, []).append(rates["meter"][roof] / oracle_rate)

    passed = True
    print(f"{'roof':8} {'median':>8} {'least':>8} {'most':>8}   product / oracle, {arguments.rounds} rounds")
    for roof, values in ratios.items():
        median = statistics.median(values)
        passed = passed and median >= arguments.limit
        verdict = "" if median >= arguments.limit else f"   below {arguments.limit}"
        print(f"{roof:8} {median:8.3f} {min(values):8.3f} {max(values):8.3f}{verdict}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
