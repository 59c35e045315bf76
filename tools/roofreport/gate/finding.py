# SPDX-License-Identifier: Apache-2.0
"""What the gate has to say of one series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from roofreport.history.records import Run, Series

Kind = Literal["slower", "faster", "drift", "failed", "vanished", "noisy", "new"]
# Worst first.
ORDER: tuple[Kind, ...] = ("slower", "drift", "failed", "vanished", "noisy", "faster", "new")
# Those that make a command exit with 1.
ALARMS: frozenset[Kind] = frozenset({"slower", "drift", "failed"})


@dataclass(frozen=True)
class Finding:
    """`before`, `after`: medians, in the unit of the series' metric; `effect`: their relative change, above 0 where the
    figure grew. All three are nan where nothing was measured."""

    series: Series
    kind: Kind
    run: Run  # the run that is judged
    before: float
    after: float
    effect: float
    since: Run | None  # the first run of the new level, where it is older than `run`
    text: str  # one line for people; may hold the words of strangers
