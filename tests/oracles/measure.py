#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measurements for an idle machine. No test asserts their figures.

  roofs      the measured roofs over what AVX-512 loops written by hand reach
  spread     p95/p5 over processes of roofbench's medians and of plain Google Benchmark's means of the same steps
  stopwatch  the figures of `generate` over the seconds outside of the process
  profiles   the share of a profiled step in operators and kernels, for every family on one thread
  gate       CPU seconds of tools/report gate over a year of nightly runs (with PYTHONPATH=tools)

Exit status 1: a figure is beyond its limit. 77: this machine cannot measure it.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
T = TypeVar("T")


def in_turns(rounds: int, sides: Sequence[T]) -> Iterator[Sequence[T]]:
    """A B B A …, so that a change of the machine's speed affects all sides."""
    for number in range(rounds):
        yield sides if number % 2 == 0 else sides[::-1]


def measured(program: Path, *flags: str) -> tuple[list[dict[str, Any]], float]:
    """The rows of a run, and the wall seconds of its process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        start = time.perf_counter()
        command: list[str | Path] = [program, *flags, f"--benchmark_out={out}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        rows: list[dict[str, Any]] = json.loads(out.read_text())["benchmarks"]
    return rows, seconds


def summary(values: Sequence[float]) -> str:
    return f"{statistics.median(values):8.4f} {min(values):8.4f} {max(values):8.4f}"


def rates(program: Path, given: argparse.Namespace) -> dict[str, float]:
    command: list[str | Path] = [program, str(given.seconds), *([str(given.threads)] if given.threads else [])]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if finished.returncode:
        sys.exit(SKIPPED if finished.returncode == SKIPPED else f"{program} failed with {finished.returncode}")
    found: dict[str, float] = json.loads(finished.stdout)
    return found


def roofs(given: argparse.Namespace) -> bool:
    programs = (given.bin / "roof_loops", given.bin / "roof_meter_main")
    ratios: dict[str, list[float]] = {}
    for order in in_turns(given.rounds, programs):
        found = {program: rates(program, given) for program in order}
        oracle, meter = (found[program] for program in programs)
        for roof, rate in oracle.items():
            ratios.setdefault(roof, []).append(meter[roof] / rate)
    print(f"{'median':>8} {'least':>8} {'most':>8}   measured over loops")
    for roof, values in ratios.items():
        print(f"{summary(values)}   {roof}")
    return all(statistics.median(values) >= given.limit for values in ratios.values())


# The step in plain Google Benchmark, and the case of the suite.
STEPS = {
    "Matmul/512/real_time": "matmul/impl:eager/dtype:fp32/n:512",
    "Gelu/16777216/real_time": "gelu/dtype:bf16/elements:16777216",
    "Copy/268435456/real_time": "copy/impl:eager/bytes:268435456",
}


def percentiles(values: Sequence[float]) -> float:
    """95th percentile over 5th."""
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return cuts[-1] / cuts[0]


def spread(given: argparse.Namespace) -> bool:
    # Without the check, which plain Google Benchmark lacks as well.
    ours = ("roofbench", f"--benchmark_filter=^({'|'.join(STEPS.values())})$", "--check=off")
    sides = (("plain_benchmark",), ours)
    times: dict[str, list[float]] = {}
    walls: dict[str, list[float]] = {}
    for order in in_turns(given.processes, sides):
        for program, *flags in order:
            rows, wall = measured(given.bin / program, *flags)
            walls.setdefault(program, []).append(wall)
            for row in rows:
                times.setdefault(row["name"], []).append(row["real_time"])
    print(f"{'plain':>8} {'ours':>8}   p95/p5 of {given.processes} processes")
    spreads = [(percentiles(times[plain]), percentiles(times[our])) for plain, our in STEPS.items()]
    for name, pair in zip(STEPS.values(), spreads, strict=True):
        print(f"{pair[0]:8.3f} {pair[1]:8.3f}   {name}")
    plain_wall, our_wall = (statistics.median(walls[side[0]]) for side in sides)
    print(f"{plain_wall:8.2f} {our_wall:8.2f}   median wall seconds of a process")
    return our_wall <= plain_wall and all(ours <= plain for plain, ours in spreads)


def generated(given: argparse.Namespace, prompt: int, new: int) -> tuple[float, list[float]]:
    """Wall seconds of a process, and what three groups of its figures say that its weights and steps took."""
    axes = {"model": given.model, "precision": given.precision, "prompt": prompt, "new": new}
    # Without a prediction, for which a smaller point would be timed.
    quick = ("--warmup_iters=0", "--max_step_time=86400", "--roofs=off", "--check=off", "--suite=quick")
    chosen = ["--benchmark_filter=^generate/", *(f"--axis=generate.{axis}={value}" for axis, value in axes.items())]
    (case,), wall = measured(given.bin / "roofbench", *chosen, *quick, f"--benchmark_min_time={given.samples}x")
    more = new - 1
    by_latency = case["ttft_ms"] + (more * case["itl_ms"] if more else 0)
    by_rate = case["ttft_ms"] + (1e3 * more / case["tokens/s"] if more else 0)
    once = case["load_ms"] + case["first_generation_ms"]
    return wall, [(once + given.samples * step) / 1e3 for step in (by_latency, by_rate, case["mean_ms"])]


def stopwatch(given: argparse.Namespace) -> bool:
    """All but the weights and steps of a process costs the same whatever it generates, so that the difference of two
    processes is that of weights and steps: B makes more tokens, or reads a longer prompt, than A."""
    passed = True
    for title, points in {
        "new tokens 2 and 130": ((32, 2), (32, 130)),
        "prompts 32 and 512": ((32, 1), (512, 1)),
    }.items():
        ratios: list[list[float]] = []
        for order in in_turns(given.rounds, points):
            runs = {point: generated(given, *point) for point in order}
            (wall_a, inside_a), (wall_b, inside_b) = (runs[point] for point in points)
            ratios.append([(b - a) / (wall_b - wall_a) for a, b in zip(inside_a, inside_b, strict=True)])
        print(f"{given.model} {given.precision}, {title}: inside over outside")
        for name, values in zip(("latencies", "rates", "mean step"), zip(*ratios, strict=True), strict=True):
            print(f"{summary(values)}   by {name}")
            passed = passed and abs(statistics.median(values) - 1) <= given.limit
    return passed


LEFT_OUT = {"complete", "quality", "published"}  # they need a checkpoint; published is generate at larger sizes
LEFT_OUT_IMPLEMENTATIONS = {"impl:compiled", "impl:graph"}
SMALLER = "--axis=decode.model=llama3_1b_4th"


def kind_of(name: str) -> tuple[str, ...]:
    family, *axes = name.split("/")
    return (family, *(axis for axis in axes if axis.startswith(("impl:", "dtype:", "precision:"))))


def listed(program: Path, suite: str) -> list[str]:
    command: list[str | Path] = [program, "--benchmark_list_tests", f"--suite={suite}", SMALLER]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in names if not LEFT_OUT_IMPLEMENTATIONS & set(kind_of(name))]


def profiles(given: argparse.Namespace) -> bool:
    """The largest quick case of each family, implementation and precision, and a small one of families without any."""
    program = given.bin / "roofbench"
    quick = {kind_of(name): name for name in listed(program, "quick")}
    families = {kind[0] for kind in quick} | LEFT_OUT
    full = [name for name in reversed(listed(program, "full")) if kind_of(name)[0] not in families]
    others = {kind_of(name)[:2]: name for name in full}
    cases = given.filter or f"^({'|'.join([*quick.values(), *others.values()])})$"
    flags = ("--threads=1", "--check=off", "--roofs=off", "--warmup_iters=1", "--benchmark_min_time=3x", SMALLER)
    with tempfile.TemporaryDirectory() as folder:
        chosen = ("--suite=full", f"--benchmark_filter={cases}", f"--profile={folder}", "--profile_steps=3")
        measured(program, *flags, *chosen)
        files = [path for path in Path(folder).glob("*.json") if ".trace." not in path.name]
        found = [json.loads(path.read_text()) for path in files]
    print(f"{'work':>6} {'own':>6} {'both':>6} {'profiled':>11}   own: of the profiler")
    low = False
    for profile in sorted(found, key=lambda one: one["covered"] + one["profiler_own"]):
        work, own, ms = profile["covered"], profile["profiler_own"], profile["profiled_ms"]
        low = low or (ms >= given.least_ms and work + own < given.limit)
        print(f"{work:6.3f} {own:6.3f} {work + own:6.3f} {ms:8.3f} ms   {profile['case']}")
    return not low


def gate(given: argparse.Namespace) -> bool:
    from roofreport.history import tables
    from roofreport.history.store import open_store
    from sqlalchemy import select

    with open_store(given.history) as store, store.database.writing() as connection:
        numbers = connection.execute(select(tables.runs.c.id).order_by(tables.runs.c.id)).scalars().all()
        for night, number in enumerate(numbers):
            begin = datetime(2025, 1, 1, 2) + timedelta(days=night)
            connection.execute(tables.runs.update().where(tables.runs.c.id == number).values(started=begin))
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([ROOT / "tools/report", "gate", f"--store={given.history}"], check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(f"{summary(seconds)}   CPU seconds, {len(numbers)} nights")
    return bool(min(seconds) <= given.limit)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(measure: Any, **flags: tuple[Any, str]) -> argparse.ArgumentParser:
        made = verbs.add_parser(measure.__name__, description=measure.__doc__)
        for name, (default, doc) in flags.items():
            made.add_argument(f"--{name}", type=type(default), default=default, help=f"{doc} (default: {default})")
        made.set_defaults(measure=measure)
        return made

    verb(
        roofs,
        rounds=(10, "of both programs"),
        seconds=(2.0, "of a program in a round"),
        threads=(0, "0: all"),
        limit=(0.95, "lowest median ratio that passes"),
    )
    verb(spread, processes=(20, "of each side"))
    verb(
        stopwatch,
        model=("llama3_1b_4th", "of generate"),
        precision=("bf16", "of generate"),
        samples=(4, "generations per process"),
        rounds=(3, "of both processes"),
        limit=(0.03, "highest deviation of a median that passes"),
    )
    verb(
        profiles,
        filter=("", "these cases of suite full instead"),
        limit=(0.95, "lowest share that passes"),
        least_ms=(1.0, "shorter steps are not judged"),
    )
    verb(gate, limit=(5.0, "CPU seconds of the best of three processes")).add_argument(
        "history", help="as tests/roofreport/site/measure_site.py --store makes it; changed to one run per night"
    )
    given = parser.parse_args()
    return 0 if given.measure(given) else 1


if __name__ == "__main__":
    sys.exit(main())
