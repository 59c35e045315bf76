# SPDX-License-Identifier: Apache-2.0
"""SciPy's functions and the statistics built on them, compared with their specifications."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from roofreport.stats import processes, sequential, verdict
from roofreport.stats.sequential import repeated_p_value, spending_weights
from scipy import stats

# Its stubs know some of its methods for some of its overloads.
_wilcoxon: Any = stats.wilcoxon


@pytest.mark.parametrize("size", [1, 2, 5, 17, 60, 61, 100])
@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0])
def test_p_value_is_exact_up_to_a_size(size: int, shift: float) -> None:
    values = np.random.default_rng(size).normal(shift, 1, size)
    expected = _wilcoxon(values, correction=True, method="exact" if size <= 60 else "asymptotic").pvalue
    assert sequential.p_value(values) == pytest.approx(expected, rel=1e-9)


def test_ties_and_zeros_as_scipy() -> None:
    values = np.array([1.0, 1.0, -1.0, 2.0, 2.0, 3.0, 0.0, 0.0, -2.0, 4.0, 5.0, 1.0])
    expected = _wilcoxon(values, zero_method="wilcox", correction=True, method="asymptotic").pvalue
    assert sequential.p_value(values) == pytest.approx(expected, rel=1e-9)
    assert sequential.p_value([0.0, 0.0]) == 1.0
    assert sequential.p_value([]) == 1.0


def test_shift_interval_inverts_the_test() -> None:
    values = np.random.default_rng(3).normal(0.5, 1, 20)
    found = sequential.shift(values, 0.95)
    assert found.low < found.value < found.high
    inside = 1e-9
    for edge, sign in ((found.low, 1), (found.high, -1)):
        assert _wilcoxon(values - (edge + sign * inside), method="exact").pvalue > 0.05
        assert _wilcoxon(values - (edge - sign * inside), method="exact").pvalue <= 0.05


def test_shift_of_few_values_is_unbounded() -> None:
    found = sequential.shift([1.0, 2.0, 3.0], 0.95)
    assert found.value == pytest.approx(2.0)
    assert math.isinf(found.low) and math.isinf(found.high)


def test_shift_covers_the_truth() -> None:
    random = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        found = sequential.shift(random.standard_t(3, 14) + 1, 0.95)
        covered += found.low <= 1 <= found.high
    assert 0.92 <= covered / 400 <= 0.99


def test_spending_adds_up_to_no_more_than_everything() -> None:
    weights = spending_weights([0.25, 0.5, 0.75, 1.0], 2.0)
    assert weights == pytest.approx([1 / 16, 3 / 16, 5 / 16, 7 / 16])
    assert sum(spending_weights([0.3, 0.3, 0.9, 1.2, 5.0], 2.0)) == pytest.approx(1.0)


def test_repeated_p_value_keeps_its_level() -> None:
    """Looking four times at pure noise is wrong at most as often as promised, though each look sees the last."""
    random = np.random.default_rng(2)
    weights = spending_weights([0.25, 0.5, 0.75, 1.0], 2.0)
    wrong = 0
    for _ in range(600):
        values = random.normal(size=40)
        p_values = [sequential.p_value(values[:count]) for count in (10, 20, 30, 40)]
        wrong += repeated_p_value(p_values, weights) <= 0.05
    assert 0.01 <= wrong / 600 <= 0.05 + 0.015
    naive = sum(
        min(sequential.p_value(values[:count]) for count in (10, 20, 30, 40)) <= 0.05
        for values in random.normal(size=(200, 40))
    )
    assert naive / 200 > 0.075


# The numbers are those of tests/timing/statistics_test.cc.
def test_two_states_are_found_whatever_their_shares() -> None:
    found = verdict.find_split([202e-6, 282e-6, 284e-6, 285e-6, 287e-6, 283e-6])
    assert found is not None
    assert (len(found.fast), len(found.slow)) == (1, 5)
    assert found.text() == "1 near 202 µs, 5 near 284 µs"
    half = verdict.find_split([3, 1, 3.1, 1.1])
    assert half is not None
    assert len(half.fast) == 2


@pytest.mark.parametrize("values", [[100, 110, 121, 133, 146], [100, 101, 102, 104, 108], [1, 1, 1, 1], [1, 2, 2], []])
def test_scatter_is_not_a_split(values: list[float]) -> None:
    assert verdict.find_split(values) is None


@pytest.mark.parametrize("sides", [(3, 3), (4, 4), (5, 5), (6, 6), (5, 9), (16, 12)])
def test_the_interval_by_ranks_is_exact(sides: tuple[int, int]) -> None:
    """The differences that it cuts off are as many as the test of Mann and Whitney calls."""
    base, new = sides
    low = np.arange(base, dtype=float)
    cut = processes.rank_cut(base, new)

    def p_of(pairs: int) -> float:
        """With so many pairs in the other order."""
        steps = [min(base, max(0, pairs - base * i)) for i in range(new)]
        after = [base - 0.5 - step for step in steps]
        found: float = stats.mannwhitneyu(low, np.array(after) + 1e-9 * np.arange(new), method="exact").pvalue
        return found

    assert (p_of(cut - 1) if cut else 0.0) <= 0.01 < p_of(cut)
