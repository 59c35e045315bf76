# SPDX-License-Identifier: Apache-2.0
"""Histories of nightly runs on a machine whose noise is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import builders
from roofreport.history.record import of_file
from roofreport.history.store import open_store

NOISE = 0.01
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)

Rows = Callable[[int, random.Random], Sequence[Mapping[str, Any]]]


def rows(factors: Mapping[str, float] | None = None, names: Sequence[str] = ()) -> Rows:
    """The cases of builders and `names`, each with its factor."""
    times = {**builders.TIMES, **dict.fromkeys(names, 2.0)}

    def of_night(_: int, chance: random.Random) -> list[dict[str, Any]]:
        scatter = {name: math.exp(chance.gauss(0, NOISE)) for name in times}
        return [
            builders.row(name, time * scatter[name] * (factors or {}).get(name, 1.0)) for name, time in times.items()
        ]

    return of_night


def result(path: Path, night: int, of_night: Rows, **context: str) -> Path:
    date = (BEGIN + timedelta(days=night)).isoformat()
    found = [dict(row) for row in of_night(night, random.Random(night))]
    return builders.write_json(path, found, date=date, roofbench_revision=f"c0ffee{night:02d}", **context)


def add(store: Path, nights: Sequence[int], of_night: Rows, **context: str) -> Path:
    with open_store(str(store), create=True) as opened:
        for night in nights:
            opened.add(of_file(result(store.with_suffix(".json"), night, of_night, **context)))
    return store
