# SPDX-License-Identifier: Apache-2.0
"""The decision rule of A B B A: pairs of processes, with at most four looks.

SLOWER and FASTER need three things: Wilcoxon's signed-rank test over the pairs, corrected for the looks (alpha spending
with the union bound) and below ALPHA in the case itself; the same below FALSE_DISCOVERY after Benjamini and Hochberg's
correction over the cases; and an effect above the floor, the difference between neighbors of one side (A A and B B).
SAME needs an interval within EQUIVALENCE. Everything else stays AMBIGUOUS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist, median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.stats import false_discovery_control

from roofreport import units
from roofreport.io.contract import TIME, Metric
from roofreport.stats.places import Handover, same_place
from roofreport.stats.verdict import Estimate, Judgment, Verdict, relative

# Its stubs know some of its arguments for some of its overloads.
_wilcoxon: Any = stats.wilcoxon

# Up to here the distribution of the statistic is enumerated, above it is normal to three digits.
EXACT_UP_TO = 60


@lru_cache(maxsize=EXACT_UP_TO)
def _cumulative(n: int) -> NDArray[np.float64]:
    """P(T+ <= t) for t = 0 … n(n+1)/2 where every rank is positive with probability one half."""
    probability = np.zeros(n * (n + 1) // 2 + 1)
    probability[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(probability)
        shifted[rank:] = probability[:-rank]
        probability = 0.5 * (probability + shifted)
    return np.cumsum(probability)


def p_value(differences: Sequence[float] | NDArray[np.float64]) -> float:
    """Two-sided p of "symmetric around zero". Zeros are dropped, as Wilcoxon did. If no value remains, there is no
    evidence: 1.
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    if len(values) == 0:
        return 1.0
    tied = len(np.unique(np.abs(values))) < len(values)
    exact = len(values) <= EXACT_UP_TO and not tied
    return float(_wilcoxon(values, correction=True, method="exact" if exact else "asymptotic").pvalue)


def _walsh_rank(n: int, confidence: float) -> int:
    """The number of Walsh averages cut off at either end: 0 where even all of them do not reach the confidence."""
    tail = (1 - confidence) / 2
    if n <= EXACT_UP_TO:
        return int(np.searchsorted(_cumulative(n), tail, side="right"))
    mean = n * (n + 1) / 4
    deviation = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    return max(0, math.floor(mean + NormalDist().inv_cdf(tail) * deviation))


def shift(differences: Sequence[float] | NDArray[np.float64], confidence: float) -> Estimate:
    """The median of the Walsh averages. With too few values for the confidence, the interval is unbounded."""
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n == 0:
        return Estimate(math.nan, -math.inf, math.inf)
    rows, columns = np.triu_indices(n)
    walsh = np.sort((values[rows] + values[columns]) / 2)
    estimate = float(np.median(walsh))
    cut = _walsh_rank(n, confidence)
    if cut == 0:
        return Estimate(estimate, -math.inf, math.inf)
    return Estimate(estimate, float(walsh[cut - 1]), float(walsh[len(walsh) - cut]))


def spending_weights(fractions: Sequence[float], power: float) -> list[float]:
    """The share of the error rate that each look may spend, looks being made at these fractions of the budget.

    Kim & DeMets' power family (Biometrika 74, 1987): a share t^power is spent by the time t. The shares are combined by
    the union bound, which holds for any dependence between looks.
    """
    weights = []
    spent = 0.0
    for fraction in fractions:
        total = min(1.0, max(0.0, fraction)) ** power
        weights.append(max(0.0, total - spent))
        spent = max(spent, total)
    return weights


def repeated_p_value(p_values: Sequence[float], weights: Sequence[float]) -> float:
    """A p-value for all looks so far: valid for any stopping rule."""
    return min(1.0, min((p / w for p, w in zip(p_values, weights, strict=True) if w > 0), default=1.0))


MIN_PAIRS = 10
LOOKS = (0.25, 0.5, 0.75, 1.0)  # fractions of the budget
SPENDING_POWER = 2.0
ALPHA = 0.01
FALSE_DISCOVERY = 0.01
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
    """One case: logarithms of its times (or of another metric) in the order A B, B A, A B, …, and the results of its
    looks.
    """

    name: str
    base_first: bool = True  # whether the base opens the first pair
    metric: Metric = TIME
    base: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    # What a cache line took between the threads of a pair's processes; may be empty.
    handovers: list[tuple[Handover, Handover]] = field(default_factory=list)
    p_values: list[float] = field(default_factory=list)  # one per look
    fractions: list[float] = field(default_factory=list)  # of the budget, one per look
    doubt: str = ""  # why its processes support no verdict
    verdict: Verdict | None = None  # None: open

    def _counting(self) -> list[int]:
        """The pairs whose processes can be compared: their threads were as near to each other."""
        return [i for i in range(len(self.base)) if same_place(self._handover(i, 0), self._handover(i, 1))]

    @property
    def pairs(self) -> int:
        return len(self._counting())

    @property
    def left_out(self) -> int:
        return len(self.base) - self.pairs

    def _handover(self, pair: int, side: int) -> Handover:
        return self.handovers[pair][side] if self.handovers else None

    def differences(self) -> list[float]:
        return [self.new[i] - self.base[i] for i in self._counting()]

    def neighbors(self) -> list[float]:
        """Differences of processes of one side that ran one after the other: B B, A A, B B, …"""
        values = self.base, self.new
        found = []
        for i in range(len(self.base) - 1):
            side = (i + self.base_first) % 2
            if same_place(self._handover(i, side), self._handover(i + 1, side)):
                found.append(values[side][i + 1] - values[side][i])
        return found

    def floor(self) -> float:
        """A smaller effect, as a logarithm, is not called."""
        neighbors = self.neighbors()
        if not neighbors:  # no two of them with their threads as near
            return math.inf
        deviation = _MAD_SCALE * median(abs(value) for value in neighbors)
        return max(
            math.log1p(self.metric.practical), FLOOR_ERRORS * _HODGES_LEHMANN * deviation / math.sqrt(self.pairs)
        )

    def judgment(self) -> Judgment:
        verdict = self.verdict or Verdict.AMBIGUOUS
        note = units.counted(self.pairs, "pair") + (f", {self.left_out} more apart" if self.left_out else "")
        if self.pairs < 2:
            return Judgment(self.name, verdict, note=note if self.left_out else "")
        found, floor = shift(self.differences(), CONFIDENCE), self.floor()
        base, new = (math.exp(median(side[i] for i in self._counting())) for side in (self.base, self.new))
        if self.verdict is None and self.doubt:
            effect = relative(found.value)
            return Judgment(self.name, verdict, effect, base=base, new=new, note=self.doubt)
        return Judgment(
            self.name,
            verdict,
            relative(found.value),
            relative(found.low),
            relative(found.high),
            base,
            new,
            note,
            relative(floor) if math.isfinite(floor) else math.nan,
        )


def look(trials: Sequence[Trial], fraction: float) -> None:
    """Decides the cases that can be decided at this fraction of the budget. Decided cases keep their verdict."""
    # Of which some may not count: too few for a small p-value or an interval decide nothing.
    opened = [trial for trial in trials if trial.verdict is None and len(trial.base) >= MIN_PAIRS]
    for trial in opened:
        trial.p_values.append(p_value(trial.differences()))
        trial.fractions.append(fraction)
    # Cases that were decided earlier keep their p-value in the correction over the cases.
    known = [trial for trial in trials if trial.p_values]
    repeated = [repeated_p_value(trial.p_values, spending_weights(trial.fractions, SPENDING_POWER)) for trial in known]
    for trial, p, q in zip(known, repeated, false_discovery_control(repeated), strict=True):
        if trial.verdict is not None or trial.doubt:
            continue
        effect = shift(trial.differences(), CONFIDENCE)
        if p <= ALPHA and q <= FALSE_DISCOVERY and abs(effect.value) >= trial.floor():
            trial.verdict = Verdict.SLOWER if trial.metric.worse(effect.value) else Verdict.FASTER
        elif max(-effect.low, effect.high) <= math.log1p(EQUIVALENCE):
            trial.verdict = Verdict.SAME


def is_due(looks_done: int, fraction: float, pairs: int) -> bool:
    """Whether the next look is due. The schedule depends on the budget alone, never on the data."""
    return looks_done < len(LOOKS) and pairs >= MIN_PAIRS and fraction >= LOOKS[looks_done]
