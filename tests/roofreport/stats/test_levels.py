# SPDX-License-Identifier: Apache-2.0
"""Levels of memory, found again from planted curves."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import machines
import pytest
from machines import KIB, MIB
from roofreport.stats.levels import find_levels

Planted = Sequence[tuple[float, float, float]]
ONE: Planted = ((math.inf, 40e9, 100e-9),)
TWO: Planted = ((2 * MIB, 110e9, 4e-9), (math.inf, 37e9, 110e-9))
THREE = machines.Machine().levels
FOUR: Planted = (
    (96 * KIB, 400e9, 1e-9),
    (MIB, 200e9, 3e-9),
    (32 * MIB, 100e9, 12e-9),
    (math.inf, 45e9, 100e-9),
)
SHARES = {"read": 1.0, "copy": 0.8}


def _curves(planted: Planted, noise: float, seed: int, latency: bool = True) -> dict[str, dict[float, float]]:
    machine, normal = machines.Machine(planted), random.Random(seed)
    curves: dict[str, dict[float, float]] = {
        kind: {size: share * machine.at(size)[0] for size in machines.SIZES} for kind, share in SHARES.items()
    }
    if latency:
        curves["latency"] = {size: machine.at(size)[1] for size in machines.SIZES}
    return {
        name: {size: value * math.exp(normal.gauss(0, noise)) for size, value in curve.items()}
        for name, curve in curves.items()
    }


@pytest.mark.parametrize("planted", [ONE, TWO, THREE, FOUR], ids=len)
@pytest.mark.parametrize(("noise", "least"), [(0.0, 40), (0.02, 40), (0.05, 36)])
def test_the_planted_levels_are_found(planted: Planted, noise: float, least: int) -> None:
    """With their rates and their reach, in so many of 40 machines at least."""
    right = 0
    for seed in range(40):
        found = find_levels(_curves(planted, noise, seed))
        rates = [level.values["read"] for level in found]
        reaches = [level.largest for level in found]
        true_rates, true_reaches = [rate for _, rate, _ in planted], [reach for reach, _, _ in planted]
        right += (
            len(found) == len(planted)
            and rates == pytest.approx(true_rates, rel=0.01 + 2.5 * noise)
            and all(
                reach / 2 < 1.05 * seen <= 2 * reach for seen, reach in zip(reaches, true_reaches[:-1], strict=False)
            )
            and found[-1].largest == machines.SIZES[-1]
        )
    assert right >= least


def test_levels_half_as_fast_as_the_one_before_are_found_without_their_latency() -> None:
    assert len(find_levels(_curves(FOUR, 0.02, 0, latency=False))) == 4


@pytest.mark.parametrize("times", [0.75, 1.3])
def test_one_point_off_moves_nothing(times: float) -> None:
    for place, size in enumerate(machines.SIZES):
        curves = _curves(FOUR, 0.01, place)
        curves["read"][size] *= times
        assert [level.values["copy"] for level in find_levels(curves)] == pytest.approx(
            [0.8 * rate for _, rate, _ in FOUR], rel=0.03
        )


def test_a_size_of_two_levels_is_in_none() -> None:
    found = find_levels({"read": dict(zip((1, 2, 4, 8, 16, 32, 64), (80, 79, 80, 50, 30, 31, 30), strict=True))})
    assert [(level.smallest, level.largest) for level in found] == [(1, 4), (16, 64)]


def test_points_of_different_curves_are_no_level() -> None:
    assert not find_levels({"read": {1.0: 30.0, 8.0: 60.0}, "copy": {2.0: 40.0, 16.0: 90.0}})
    assert not find_levels({})
    assert not find_levels({"read": {1.0: 0.0, 2.0: math.inf, 4.0: -1.0}})


def test_a_curve_of_many_sizes_takes_no_time() -> None:
    curve = {float(size): 5e10 if size < 5000 else 2e10 for size in range(1, 10_001)}
    assert [level.values["read"] for level in find_levels({"read": curve})] == [5e10, 2e10]
