# SPDX-License-Identifier: Apache-2.0
"""Compares collectives over Gloo in roofbench and in Python's torch.distributed: tools/peers collectives."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from roofreport.text import printable

from peer_runs.gloo_ranks import OPERATIONS
from peer_runs.turns import (
    ALLOCATORS,
    RETAINED,
    WARMUPS,
    FailedError,
    alternate,
    count,
    environment_of,
    measure_case,
    output_of,
)

ROOT = Path(__file__).resolve().parents[2]
BYTES = (1 << 10, 1 << 15, 1 << 20, 1 << 25)


@dataclass(frozen=True)
class Settings:
    program: Path
    ranks: int
    dtype: str
    samples: int
    allocator: str = ALLOCATORS[0]

    @property
    def threads(self) -> int:
        """Threads of each rank, on both sides."""
        return max(1, self.processors // self.ranks)

    @property
    def processors(self) -> int:
        return len(os.sched_getaffinity(0))


def pinned(ranks: int) -> list[str | Path]:
    """Starts a command as so many ranks. Without pinning, Linux would place the threads of each group differently."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    return [*launcher, Path(__file__).with_name("pinned.py")]


def run_peer(family: str, size: int, settings: Settings) -> tuple[float, dict[str, str]]:
    """Median seconds of the slowest rank in torch.distributed."""
    command = [*pinned(settings.ranks), sys.executable, Path(__file__).with_name("gloo_ranks.py")]
    numbers = map(str, (size, WARMUPS, settings.samples))
    # The copies of a collective are mostly below 2 MiB, where huge pages would give this side alone an advantage.
    environment = environment_of(settings.allocator, settings.threads, RETAINED) | {"GLOO_SOCKET_IFNAME": "lo"}
    lines = output_of([*command, family, settings.dtype, *numbers], environment).splitlines()
    found = json.loads(lines[-1])
    return statistics.median(found["seconds"]), found["settings"] | {"allocator": settings.allocator}


def run_ours(family: str, size: int, settings: Settings) -> tuple[float, dict[str, str]]:
    axes = {"ranks": str(settings.ranks), "dtype": settings.dtype, "bytes": str(size)}
    case = "/".join([family, "impl:gloo", *(f"{name}:{value}" for name, value in axes.items())])
    flags = {
        # Per rank: only ranks that share processors divide it.
        "threads": settings.threads,
        "allocator": settings.allocator,
        "benchmark_min_time": f"{settings.samples}x",
        "roofs": "off",
    }
    return measure_case([*pinned(settings.ranks), settings.program], case, axes, flags)


def compare(family: str, size: int, rounds: int, settings: Settings) -> list[dict[str, str]]:
    """The facts of both sides."""
    sides = (lambda: run_ours(family, size, settings), lambda: run_peer(family, size, settings))
    seconds, facts = alternate(sides, rounds)
    ours, theirs = (statistics.median(medians) for medians in seconds)
    pairs = [a / b for a, b in zip(*seconds, strict=True)]
    times = f"{1e3 * ours:12.3f} {1e3 * theirs:12.3f}"
    print(f"{family:<15} {size:>11} {times} {ours / theirs:7.2f}   {min(pairs):.2f} to {max(pairs):.2f}", flush=True)
    return facts


def main(given: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tools/peers collectives", description=__doc__)
    parser.add_argument("families", nargs="*", default=list(OPERATIONS), help=f"of {', '.join(OPERATIONS)}")
    parser.add_argument("--bytes", type=count, nargs="+", default=BYTES, help="sizes of the whole array")
    parser.add_argument("--ranks", type=count, default=2)
    parser.add_argument("--dtype", default="fp32", choices=("fp32", "bf16", "fp16", "int8"))
    parser.add_argument("--rounds", type=count, default=4, help="processes per side and case")
    parser.add_argument("--samples", type=count, default=30, help="samples per process")
    parser.add_argument(
        "--allocator", choices=ALLOCATORS, default=ALLOCATORS[0], help="of both sides; see roofbench --help"
    )
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "release" / "bin" / "roofbench")
    chosen = parser.parse_args(given)
    if unknown := set(chosen.families) - set(OPERATIONS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected {', '.join(OPERATIONS)}")
    settings = Settings(chosen.program, chosen.ranks, chosen.dtype, chosen.samples, chosen.allocator)
    print(
        f"ranks {settings.ranks}, each pinned to processors, threads a rank {settings.threads}, {settings.dtype}, "
        f"{settings.allocator} allocator, warm caches; {chosen.rounds} groups of processes a side in turns, "
        f"{settings.samples} samples each"
    )
    print(f"{'':<15} {'bytes':>11} {'roofbench ms':>12} {'torch ms':>12} {'ratio':>7}   by pairs")
    facts: list[dict[str, str]] = []
    for family in chosen.families:
        for size in chosen.bytes:
            try:
                facts = compare(family, size, chosen.rounds, settings)
            except FailedError as error:
                raise SystemExit(f"tools/peers: {printable(f'{family} of {size} bytes: {error}', 1000)}") from error
    for side, found in zip(("roofbench", "torch"), facts, strict=True):
        print(f"{side:<15} {', '.join(f'{name} {value}' for name, value in found.items())}")
