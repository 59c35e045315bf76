# SPDX-License-Identifier: Apache-2.0
"""Compares training steps in PyTorch eager and in roofbench: tools/peers train."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from roofreport.text import escaped, printable

from peer_runs.turns import ALLOCATORS, WARMUPS, FailedError, alternate, count, measure_case, output_of

ROOT = Path(__file__).resolve().parents[2]
# Enough samples of a step of each family for its median.
SAMPLES = {"train_step": 5, "mlp": 200}
DEFAULT_CASES = (
    "train_step/impl:native/size:small/context:128/dtype:fp32",
    "train_step/impl:native/size:small/context:128/dtype:bf16_autocast",
    "mlp/dtype:fp32/steps:2/layers:4/batch:256/d:32",
    "mlp/dtype:fp32/steps:2/layers:4/batch:256/d:64",
)

# What torch_steps.py varies: values of an axis, or any where there is no list. Of all else it does the default.
DTYPES = ("fp32", "bf16_autocast")
VARIED: dict[str, dict[str, tuple[str, ...] | None]] = {
    "train_step": {"impl": None, "size": ("small", "medium"), "context": None, "dtype": DTYPES},
    "mlp": {"impl": None, "dtype": DTYPES, "steps": None, "layers": None, "batch": None, "d": None},
}


def family_of(case: str) -> str:
    return case.split("/", 1)[0]


def why_another_step(case: str) -> str | None:
    """Why PyTorch's side would do other work than this case; None where it does the same."""
    family, *parts = case.split("/")
    varied = VARIED[family]
    for part in parts:
        axis, _, value = part.partition(":")
        values = varied.get(axis, ())
        if values is not None and value not in values:
            known = f"{axis} {' or '.join(values)}" if values else f"the default {axis}"
            return f"PyTorch's side of {family} has {known} alone"
    missing = [axis for axis in varied if axis != "impl" and not any(part.startswith(f"{axis}:") for part in parts)]
    return f"name {' and '.join(missing)} as well" if missing else None


@dataclass(frozen=True)
class Settings:
    program: Path
    threads: int
    samples: int | None
    allocator: str = ALLOCATORS[0]

    def samples_of(self, case: str) -> int:
        return self.samples or SAMPLES[family_of(case)]


def run_peer(case: str, settings: Settings) -> tuple[float, dict[str, str]]:
    """Median seconds of a step in PyTorch eager, in a fresh process."""
    script = Path(__file__).with_name("torch_steps.py")
    numbers = (WARMUPS, settings.samples_of(case), settings.threads)
    found = json.loads(output_of([sys.executable, script, case, settings.allocator, *map(str, numbers)], {}))
    return statistics.median(found["seconds"]), found["settings"]


def run_ours(case: str, settings: Settings) -> tuple[float, dict[str, str]]:
    """Median seconds of a step in roofbench, in a fresh process."""
    axes = dict(part.split(":", 1) for part in case.split("/")[1:])
    flags = {
        "threads": settings.threads,
        "allocator": settings.allocator,
        "benchmark_min_time": f"{settings.samples_of(case)}x",
    }
    return measure_case([settings.program], case, axes, flags)


def compare(case: str, rounds: int, settings: Settings) -> None:
    """Fresh processes in turns."""
    seconds, facts = alternate((lambda: run_ours(case, settings), lambda: run_peer(case, settings)), rounds)
    ours, theirs = (statistics.median(medians) for medians in seconds)
    pairs = [a / b for a, b in zip(*seconds, strict=True)]
    print(
        f"{escaped(case)}: {settings.threads} threads, {settings.allocator} allocator, "
        f"{rounds} processes a side, {settings.samples_of(case)} steps each"
    )
    print(f"  roofbench       {1e3 * ours:10.3f} ms  {facts[0]}")
    print(f"  PyTorch eager   {1e3 * theirs:10.3f} ms  {facts[1]}")
    print(f"  ratio           {ours / theirs:10.2f}     ({min(pairs):.2f} to {max(pairs):.2f} by pairs)", flush=True)


def main(given: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tools/peers train", description=__doc__)
    parser.add_argument("cases", nargs="*", default=DEFAULT_CASES, help="names of train_step and mlp cases")
    parser.add_argument("--rounds", type=count, default=4, help="processes per side and case")
    parser.add_argument("--samples", type=count, help="timed steps per process")
    parser.add_argument("--threads", type=count, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--allocator", choices=ALLOCATORS, default=ALLOCATORS[0], help="of both sides; see roofbench --help"
    )
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "release" / "bin" / "roofbench")
    chosen = parser.parse_args(given)
    settings = Settings(chosen.program, chosen.threads, chosen.samples, chosen.allocator)
    for case in chosen.cases:
        if family_of(case) not in SAMPLES:
            parser.error(f"{case}: expected a case of {' or '.join(SAMPLES)}, such as {DEFAULT_CASES[0]}")
        if why := why_another_step(case):
            parser.error(f"{case}: {why}")
    for case in chosen.cases:
        try:
            compare(case, chosen.rounds, settings)
        except FailedError as error:
            raise SystemExit(f"tools/peers: {printable(f'{case}: {error}', 1000)}") from error
