# SPDX-License-Identifier: Apache-2.0
"""The start and the rate of a link, found again from planted times."""

from __future__ import annotations

import math
import random

import pytest
from machines import KIB, MIB
from roofreport.stats.link import Link, fit

SIZES = [8.0, 512.0, 32.0 * KIB, 256.0 * KIB, 2.0 * MIB, 64.0 * MIB]
START, RATE = 20e-6, 5e9  # seconds, bytes a second


def _fitted(noise: float, seed: int) -> Link:
    normal = random.Random(seed)
    times = [(START + size / RATE) * math.exp(normal.gauss(0, noise)) for size in SIZES]
    found = fit(SIZES, times)
    assert found is not None
    return found


def test_exact_times_give_the_planted_link() -> None:
    found = _fitted(0, 0)
    assert found.start == pytest.approx((START,) * 3)
    assert found.per_byte == pytest.approx((1 / RATE,) * 3)
    assert found.rate == pytest.approx((RATE,) * 3)


def test_intervals_hold_what_was_planted() -> None:
    found = [_fitted(0.05, seed) for seed in range(200)]
    assert all(one.rate.low < one.rate.value < one.rate.high for one in found)
    assert sum(one.start.low <= START <= one.start.high for one in found) >= 180
    assert sum(one.rate.low <= RATE <= one.rate.high for one in found) >= 180


def test_two_sizes_determine_no_link() -> None:
    assert fit([], []) is None
    assert fit([8, 8, 64, 64], [1e-6, 1.1e-6, 2e-6, 2e-6]) is None
    assert fit([1, 1e-300, 1e300], [1e100, 1e-100, 1]) is None
