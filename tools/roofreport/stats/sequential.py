# SPDX-License-Identifier: Apache-2.0
"""The decision rule of A B B A: pairs of processes, looked at four times at most.

SLOWER and FASTER need three things: Wilcoxon's signed-rank test over the pairs, corrected for the looks (alpha spending
with the union bound) and below ALPHA in the case itself; the same below FALSE_DISCOVERY after Benjamini and Hochberg's
correction over the cases; and an effect above the floor, which is what the case's own neighbours of one side (A A and
B B) differ by. SAME needs an interval within EQUIVALENCE. What is neither stays AMBIGUOUS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, median

from scipy.stats import false_discovery_control

from roofreport.io.contract import TIME, Metric
from roofreport.stats import signed_rank
from roofreport.stats.spending import repeated_p_value, spending_weights
from roofreport.stats.verdict import Judgement, Verdict, relative

MIN_PAIRS = 10
LOOKS = (0.25, 0.5, 0.75, 1.0)  # fractions of the budget
SPENDING_POWER = 2.0
ALPHA = 0.01
FALSE_DISCOVERY = 0.05
CONFIDENCE = 0.95
EQUIVALENCE = 0.02
# The floor is this many standard errors of a comparison of a side with itself.
FLOOR_ERRORS = 2.0
# Standard deviation of a normal sample over its median absolute deviation.
_MAD_SCALE = 1 / NormalDist().inv_cdf(0.75)
# Standard error of the Hodges-Lehmann estimate over that of the mean, for normal values.
_HODGES_LEHMANN = math.sqrt(math.pi / 3)


@dataclass
class Trial:
    """One case: logarithms of its times (or of another metric) in the order A B, B A, A B, …, and what its looks have
    found."""

    name: str
    base_first: bool = True  # whether the base opens the first pair
    metric: Metric = TIME
    base: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    p_values: list[float] = field(default_factory=list)  # one a look
    fractions: list[float] = field(default_factory=list)  # of the budget, one a look
    verdict: Verdict | None = None  # None: open

    @property
    def pairs(self) -> int:
        return len(self.base)

    def differences(self) -> list[float]:
        return [new - base for base, new in zip(self.base, self.new, strict=True)]

    def neighbours(self) -> list[float]:
        """Differences of processes of one side that ran one after the other: B B, A A, B B, …"""
        sides = (self.new, self.base) if self.base_first else (self.base, self.new)
        return [sides[i % 2][i + 1] - sides[i % 2][i] for i in range(self.pairs - 1)]

    def floor(self) -> float:
        """A smaller effect, as a logarithm, is not called."""
        deviation = _MAD_SCALE * median(abs(value) for value in self.neighbours())
        return max(
            math.log1p(self.metric.practical), FLOOR_ERRORS * _HODGES_LEHMANN * deviation / math.sqrt(self.pairs)
        )

    def judgement(self) -> Judgement:
        verdict = self.verdict or Verdict.AMBIGUOUS
        if self.pairs < 2:
            return Judgement(self.name, verdict)
        found = signed_rank.shift(self.differences(), CONFIDENCE)
        return Judgement(
            self.name,
            verdict,
            relative(found.estimate),
            relative(found.low),
            relative(found.high),
            math.exp(median(self.base)),
            math.exp(median(self.new)),
            f"{self.pairs} pairs",
            relative(self.floor()),
        )


def look(trials: Sequence[Trial], fraction: float) -> None:
    """Decides what can be decided at this fraction of the budget. Decided cases keep their verdict."""
    opened = [trial for trial in trials if trial.verdict is None and trial.pairs >= MIN_PAIRS]
    for trial in opened:
        trial.p_values.append(signed_rank.p_value(trial.differences()))
        trial.fractions.append(fraction)
    # Cases that were decided earlier keep their p-value in the correction over the cases.
    known = [trial for trial in trials if trial.p_values]
    repeated = [repeated_p_value(trial.p_values, spending_weights(trial.fractions, SPENDING_POWER)) for trial in known]
    for trial, p, q in zip(known, repeated, false_discovery_control(repeated), strict=True):
        if trial.verdict is not None:
            continue
        effect = signed_rank.shift(trial.differences(), CONFIDENCE)
        if p <= ALPHA and q <= FALSE_DISCOVERY and abs(effect.estimate) >= trial.floor():
            trial.verdict = Verdict.SLOWER if trial.metric.worse(effect.estimate) else Verdict.FASTER
        elif max(-effect.low, effect.high) <= math.log1p(EQUIVALENCE):
            trial.verdict = Verdict.SAME


def is_due(looks_done: int, fraction: float, pairs: int) -> bool:
    """Whether the next look is to be taken now. The schedule depends on the budget alone, never on the data."""
    return looks_done < len(LOOKS) and pairs >= MIN_PAIRS and fraction >= LOOKS[looks_done]
