# SPDX-License-Identifier: Apache-2.0
"""What the page of a case shows of its nights beside one metric: every counter, and how the samples lay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from roofreport.history.records import Reading, Series
from roofreport.io.contract import TIME
from roofreport.site.data.catalogue import token
from roofreport.site.data.samples import NOTHING, Told
from roofreport.site.data.script import number, words

_MOST_COUNTERS = 120


def token_of(series: Series) -> str:
    """The same for every metric of a case on one machine and toolchain."""
    return token(replace(series, metric=TIME.name).key)


def _column(values: Sequence[float | None]) -> Any:
    """One figure where every night has the same, as counts of parameters."""
    rounded = [number(value, 4) for value in values]
    return rounded[0] if rounded and all(value == rounded[0] for value in rounded) else rounded


def data(readings: Sequence[Reading], told: Mapping[str, Told]) -> dict[str, Any]:
    """`told`: by the digest of the run."""
    rows = [dict(one.counters) for one in readings]
    names = list(dict.fromkeys(name for row in rows for name in row))[:_MOST_COUNTERS]
    nights = [told.get(one.run.digest, NOTHING) for one in readings]
    return {
        "counters": {words(name, 100): _column([row.get(name) for row in rows]) for name in names},
        "samples": [one.shape for one in nights],
        "stops": [one.stop for one in nights],
    }
