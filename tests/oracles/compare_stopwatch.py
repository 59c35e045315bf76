#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the figures of `generate` against a stopwatch outside of the process.

What a process needs beside its weights and steps (libraries, calibration) is the same whatever it generates, so that
the difference between two processes is that of those: process B reads a longer prompt, or makes more tokens, than
process A. From outside that is seconds of wall time; from inside

    load_ms + first_generation_ms + samples * (ttft_ms + (new - 1) * itl_ms)

and the same with 1e3 * tokens / (tokens/s), and with the mean of the samples.

The roof is not measured meanwhile: its slices would be in the outer time alone. Rounds alternate in order, for a
shared machine changes speed within minutes. Exits with 1 if the median over the rounds of inside / outside of any
comparison is off by more than the limit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

Counters = dict[str, float]
PROGRAM = Path(__file__).resolve().parents[2] / "build" / "release" / "bin" / "roofbench"


def run(program: Path, arguments: argparse.Namespace, prompt: int, new: int) -> tuple[float, Counters]:
    """Wall seconds of a process, and the counters of its only case."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        axes = {"model": arguments.model, "precision": arguments.precision, "prompt": prompt, "new": new}
        command: list[str | Path] = [
            program,
            "--suite=quick",
            "--benchmark_filter=^generate/",
            *(f"--axis=generate.{axis}={value}" for axis, value in axes.items()),
            f"--benchmark_min_time={arguments.samples}x",
            "--warmup_iters=0",
            "--max_step_time=86400",  # no smaller point is timed for a prediction
            "--roof_share=0",
            "--check=off",
            f"--benchmark_out={out}",
        ]
        start = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - start
        (case,) = json.loads(out.read_text())["benchmarks"]
    return seconds, case


def by_latencies(counters: Counters, new: int) -> float:
    return counters["ttft_ms"] + ((new - 1) * counters["itl_ms"] if new > 1 else 0)


def by_rates(counters: Counters, new: int) -> float:
    return counters["ttft_ms"] + (1e3 * (new - 1) / counters["tokens/s"] if new > 1 else 0)


def by_step(counters: Counters, _new: int) -> float:
    return counters["mean_ms"]


FORMULAS: dict[str, Callable[[Counters, int], float]] = {
    "ttft + (n-1) itl": by_latencies,
    "ttft + (n-1) / (tokens/s)": by_rates,
    "mean step": by_step,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--model", default="llama3_1b_4th")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--prompts", default="32,512", help="tokens of the prompt in processes A and B")
    parser.add_argument("--new", default="2,130", help="new tokens in processes A and B")
    parser.add_argument("--only", choices=("new", "prompt"), help="one of the two comparisons")
    parser.add_argument("--samples", type=int, default=4, help="generations a process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=0.03)
    arguments = parser.parse_args()
    prompts = [int(part) for part in arguments.prompts.split(",")]
    new = [int(part) for part in arguments.new.split(",")]
    comparisons = {
        f"new tokens {new[0]} -> {new[1]}": ((prompts[0], new[0]), (prompts[0], new[1])),
        f"prompt {prompts[0]} -> {prompts[1]}": ((prompts[0], 1), (prompts[1], 1)),
    }
    if arguments.only:
        comparisons = {title: points for title, points in comparisons.items() if title.startswith(arguments.only)}
    passed = True
    for title, points in comparisons.items():
        ratios: dict[str, list[float]] = {name: [] for name in FORMULAS}
        outside: list[float] = []
        for turn in range(arguments.rounds):
            order = points if turn % 2 == 0 else points[::-1]
            runs = {point: run(arguments.program, arguments, *point) for point in order}
            (a, b) = (runs[point] for point in points)
            outside.append(b[0] - a[0])
            for name, formula in FORMULAS.items():
                inside = [
                    counters["load_ms"]
                    + counters["first_generation_ms"]
                    + arguments.samples * formula(counters, point[1])
                    for point, (_, counters) in zip(points, (a, b), strict=True)
                ]
                ratios[name].append((inside[1] - inside[0]) / 1e3 / outside[-1])
        print(f"{arguments.model} {arguments.precision}, {title}: {statistics.median(outside):.2f} s outside")
        for name, values in ratios.items():
            off = statistics.median(values) - 1
            passed = passed and abs(off) <= arguments.limit
            spread = f"{min(values):.4f} to {max(values):.4f}"
            print(f"  inside / outside by {name:26} {1 + off:.4f}  ({spread} in {arguments.rounds} rounds)")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
