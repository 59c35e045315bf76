# SPDX-License-Identifier: Apache-2.0
"""Verdicts on contiguous windows of a pool, and how many of them are wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roofreport.stats import sequential
from roofreport.stats.pool import ARMS, INJECTED, Pool
from roofreport.stats.sequential import Trial
from roofreport.stats.verdict import Verdict

# What is compared with what. Both run next to each other in every round.
PAIRS = (("base", "base2"), ("base2", "slow3"), ("base", "slow5"))
U_TEST_ALPHA = 0.05


@dataclass
class Rates:
    """Of one pair of arms: the share of windows of each case with each outcome."""

    base: str
    new: str
    cases: tuple[str, ...]
    windows: int = 0
    faster: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    slower: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    same: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    u_test: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    pairs_used: float = 0.0

    @property
    def injected(self) -> float:
        return INJECTED[self.new] - INJECTED[self.base]

    @property
    def called(self) -> NDArray[np.float64]:
        """False verdicts where nothing is injected, else the right ones."""
        return self.slower if self.injected > 0 else self.slower + self.faster


def window_verdicts(
    base: NDArray[np.float64], new: NDArray[np.float64], base_first: bool
) -> tuple[list[Verdict], list[int]]:
    """What abba says of [pair, case] when the window is its whole budget; and after how many pairs."""
    pairs, cases = base.shape
    trials = [Trial(str(case), base_first) for case in range(cases)]
    decided = [pairs] * cases
    looks = 0
    for pair in range(pairs):
        for case, trial in enumerate(trials):
            if trial.verdict is None:
                trial.base.append(float(base[pair, case]))
                trial.new.append(float(new[pair, case]))
        fraction = (pair + 1) / pairs
        if not sequential.is_due(looks, fraction, pair + 1):
            continue
        still = [trial.verdict is None for trial in trials]
        sequential.look(trials, fraction)
        looks += 1
        for case, trial in enumerate(trials):
            if still[case] and trial.verdict is not None:
                decided[case] = pair + 1
    return [trial.verdict or Verdict.AMBIGUOUS for trial in trials], decided


def u_test_calls(base: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.bool_]:
    """What compare.py marks as different when it gets the processes' medians as repetitions."""
    from scipy.stats import mannwhitneyu

    result = mannwhitneyu(base, new, alternative="two-sided", axis=0)
    return np.asarray(result.pvalue < U_TEST_ALPHA)


def rates(pool: Pool, base: str, new: str, window: int, stride: int = 1) -> Rates:
    found = Rates(base, new, pool.cases)
    columns = pool.arm(base), pool.arm(new)
    outcomes: list[list[Verdict]] = []
    u_tests = []
    used: list[int] = []
    base_before = ARMS.index(base) < ARMS.index(new)
    for start in range(0, columns[0].shape[0] - window + 1, stride):
        a, b = (column[start : start + window] for column in columns)
        verdicts, decided = window_verdicts(a, b, base_before == (start % 2 == 0))
        outcomes.append(verdicts)
        u_tests.append(u_test_calls(a, b))
        used += decided
    found.windows = len(outcomes)
    if outcomes:
        table = np.array([[verdict.value for verdict in row] for row in outcomes])
        found.faster = (table == Verdict.FASTER.value).mean(axis=0)
        found.slower = (table == Verdict.SLOWER.value).mean(axis=0)
        found.same = (table == Verdict.SAME.value).mean(axis=0)
        found.u_test = np.array(u_tests).mean(axis=0)
        found.pairs_used = float(np.mean(used))
    return found


def block_u_test(pool: Pool, window: int) -> NDArray[np.float64]:
    """False alarms of compare.py's test where one block of processes runs after the other, not in turns."""
    column = pool.arm("base")
    calls = [
        u_test_calls(column[start : start + window], column[start + window : start + 2 * window])
        for start in range(column.shape[0] - 2 * window + 1)
    ]
    return np.array(calls).mean(axis=0) if calls else np.full(len(pool.cases), np.nan)


def within_round_deviation(pool: Pool) -> NDArray[np.float64]:
    """Robust standard deviation of base2 over base, next to each other: the noise that a pair has."""
    differences = pool.arm("base2") - pool.arm("base")
    return np.asarray(1.4826 * np.median(np.abs(differences - np.median(differences, axis=0)), axis=0))
