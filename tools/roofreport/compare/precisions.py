# SPDX-License-Identifier: Apache-2.0
"""Which precision generates tokens fastest here, and what each costs: the cases that differ in it alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofreport.io import case_name
from roofreport.io.result import Case, State


@dataclass(frozen=True)
class Serving:
    """One precision of a generation. Times are in seconds; 0 where the case does not tell."""

    precision: str
    first_token: float
    next_token: float
    next_token_p95: float
    rate: float  # tokens a second
    weights: float  # bytes


@dataclass(frozen=True)
class Choice:
    """Two precisions or more of the same generation, the fastest first."""

    work: str  # the cases' name without the precision
    servings: tuple[Serving, ...]

    @property
    def lead(self) -> float:
        """The best one's rate over the next one's."""
        return self.servings[0].rate / self.servings[1].rate

    @property
    def share_of_bytes(self) -> float:
        """The best one's weights over the next one's."""
        return self.servings[0].weights / self.servings[1].weights


def _serving(case: Case) -> Serving | None:
    """None where the case was not measured, has no precision, or generates nothing after a first token."""
    precision = case_name.axes(case.name).get(case_name.PRECISION)
    known = case.counters
    if case.state is not State.MEASURED or not precision:
        return None
    if not all(known.get(counter, 0) > 0 for counter in ("itl_ms", "tokens/s", "model_bytes")):
        return None
    first, following, p95 = (known.get(counter, 0.0) / 1e3 for counter in ("ttft_ms", "itl_ms", "itl_p95_ms"))
    return Serving(precision, first, following, p95, known["tokens/s"], known["model_bytes"])


def find(cases: Iterable[Case]) -> list[Choice]:
    """One for each generation that was measured in two precisions or more."""
    groups: dict[str, list[Serving]] = {}
    for case in cases:
        serving = _serving(case)
        if serving:
            groups.setdefault(case_name.without_axis(case.name, case_name.PRECISION), []).append(serving)
    return [
        Choice(work, tuple(sorted(group, key=lambda one: -one.rate)))
        for work, group in groups.items()
        if len(group) > 1
    ]
