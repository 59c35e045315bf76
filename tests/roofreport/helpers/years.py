# SPDX-License-Identifier: Apache-2.0
"""Synthetic histories: a given number of cases and nightly runs, with changes at known places."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import product
from pathlib import Path

import builders
from roofreport.history.record import of_file
from roofreport.history.store import Store

FIRST = datetime(2026, 1, 1, 2, 0, tzinfo=timezone.utc)
_NOISE = 0.01


@dataclass(frozen=True)
class Change:
    """From a nightly run on, a case takes `factor` as long, or gives a reason why it cannot run."""

    night: int
    factor: float = 1.0
    reason: str = ""


@dataclass(frozen=True)
class Year:
    cases: tuple[str, ...]
    nights: int
    samples: int = 8
    changes: Mapping[str, Change] = field(default_factory=dict)
    context: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    processes: int = 1  # of each nightly run, each an hour after the one before


def names(count: int) -> tuple[str, ...]:
    """`count` case names, of up to ten families."""
    families = ("matmul", "gemv", "softmax", "layer_norm", "attention", "copy", "read", "gelu", "conv2d", "embedding")
    return tuple(
        f"{families[i % len(families)]}/impl:{('eager', 'onednn')[i % 2]}/dtype:bf16/n:{64 * (1 + i // len(families))}"
        for i in range(count)
    )


def revision(night: int) -> str:
    return f"{night // 2:08x}" + "0" * 32


def _line(name: str, seconds: float, change: Change | None, samples: int, noise: random.Random) -> dict[str, object]:
    if change and change.reason:
        return builders.line(name, 1.0) | {
            "verdict": "failed",
            "reason": change.reason,
            "counters": {},
            "samples_s": [],
            "chunks": [],
        }
    median = seconds * (change.factor if change else 1.0) * (1 + noise.gauss(0, _NOISE))
    counters = builders.counters(builders.MATMUL, 1e3 * median) | {"FLOP/s": 1e9 / median, "bytes/s": 1e7 / median}
    counters |= {
        "roof": 6e-4 / median,
        "peak_mem": 1e8,
        "a100_mem_util": 1e-5 / median,
        "a100_flop_util": 3e-6 / median,
    }
    times = [median * (1 + abs(noise.gauss(0, 2 * _NOISE))) for _ in range(samples)]
    return builders.line(name, 1e3 * median) | {"counters": counters, "samples_s": times, "flops": 1e9, "bytes": 1e7}


def journal(year: Year, night: int, process: int = 0) -> str:
    noise = random.Random(f"{year.seed} {night}" + (f" {process}" if process else ""))
    started = (FIRST + timedelta(days=night, hours=process)).isoformat()
    context = {"started": started, "roofbench_revision": revision(night), **year.context}
    lines: list[dict[str, object]] = [builders.header(**context)]
    for place, name in enumerate(year.cases):
        change = year.changes.get(name)
        begun = change if change and night >= change.night else None
        lines.append(_line(name, 1e-3 * (1 + place % 7), begun, year.samples, noise))
    return "".join(json.dumps(line) + "\n" for line in lines)


def fill(store: Store, year: Year, folder: Path, nights: Iterable[int] | None = None) -> None:
    """`folder` is for journals on their way."""
    for night, process in product(range(year.nights) if nights is None else nights, range(year.processes)):
        path = folder / f"night-{night}.jsonl"
        path.write_text(journal(year, night, process), encoding="utf-8")
        store.add(of_file(path))
        path.unlink()
