# SPDX-License-Identifier: Apache-2.0
"""Wilcoxon's signed-rank test, and the shift that it accepts: the Hodges-Lehmann estimate with its interval.

Sources: Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, 3rd ed., sections 3.1 to 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

# Its stubs know some of its arguments for some of its overloads.
_wilcoxon: Any = stats.wilcoxon

# Up to here the distribution of the statistic is enumerated, above it is normal to three digits.
EXACT_UP_TO = 60


class Shift(NamedTuple):
    """A location with its confidence interval."""

    estimate: float
    low: float
    high: float


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
    """Two-sided p of "symmetric around zero". Zeros are dropped, as Wilcoxon did; nothing left is no evidence: 1."""
    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    if len(values) == 0:
        return 1.0
    tied = len(np.unique(np.abs(values))) < len(values)
    exact = len(values) <= EXACT_UP_TO and not tied
    return float(_wilcoxon(values, correction=True, method="exact" if exact else "asymptotic").pvalue)


def _walsh_rank(n: int, confidence: float) -> int:
    """How many Walsh averages are cut off at either end: 0 where even all of them do not reach the confidence."""
    tail = (1 - confidence) / 2
    if n <= EXACT_UP_TO:
        return int(np.searchsorted(_cumulative(n), tail, side="right"))
    mean = n * (n + 1) / 4
    deviation = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    return max(0, math.floor(mean + NormalDist().inv_cdf(tail) * deviation))


def shift(differences: Sequence[float] | NDArray[np.float64], confidence: float) -> Shift:
    """The median of the Walsh averages. With too few values for the confidence, the interval is unbounded."""
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if n == 0:
        return Shift(math.nan, -math.inf, math.inf)
    rows, columns = np.triu_indices(n)
    walsh = np.sort((values[rows] + values[columns]) / 2)
    estimate = float(np.median(walsh))
    cut = _walsh_rank(n, confidence)
    if cut == 0:
        return Shift(estimate, -math.inf, math.inf)
    return Shift(estimate, float(walsh[cut - 1]), float(walsh[len(walsh) - cut]))
