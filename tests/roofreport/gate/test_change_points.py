# SPDX-License-Identifier: Apache-2.0
"""Where a series moved: levels are found, single nightly runs and noise are not."""

from __future__ import annotations

import numpy as np
import pytest
from roofreport.gate import series_state
from roofreport.io.contract import TIME, Better, Metric


def _noise(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.01, count)


def _step(place: int, size: float) -> np.ndarray:
    return _noise(120) + np.where(np.arange(120) >= place, size, 0.0)


def _disturbed() -> np.ndarray:
    values = _noise(120)
    values[[20, 55, 90]] += 0.5
    values[70:72] += 0.5
    return values


@pytest.mark.parametrize("seed", range(8))
def test_a_pace_that_stays_says_nothing(seed: int) -> None:
    logs = np.log(0.0459 * (1 + np.random.default_rng(seed).permutation(10) * 1e-6))
    paces = np.full((10, 1), -0.32 * np.log(53.1875))
    assert series_state.fit_pace(logs, paces) == series_state.NOT_AT_ALL


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        *((_step(place, size), [place]) for place in (30, 60, 110) for size in (0.05, -0.05)),
        (_noise(120) + np.repeat([0.0, 0.06, 0.0], 40), [40, 80]),
        (_disturbed(), []),
        (np.array([1.0] * 20 + [1.02] * 10), [20]),  # the same figure until it changes
        (np.array([]), []),
        (np.ones(5), []),
        (np.ones(50), []),
    ],
)
def test_levels_are_found_where_they_begin(values: np.ndarray, expected: list[int]) -> None:
    found = series_state.change_points(values.tolist())
    assert len(found) == len(expected)
    assert np.allclose(found, expected, atol=1)


def test_noise_has_few_levels() -> None:
    found = [series_state.change_points(_noise(120, seed).tolist()) for seed in range(50)]
    assert sum(map(bool, found)) <= 2


def test_hosts_of_a_pool_are_no_levels() -> None:
    """Nor are single slow nights: levels of different programs are found among them."""
    hosts = [_noise(120, seed) + 0.1 * (np.random.default_rng(seed).random(120) < 0.2) for seed in range(50)]
    assert sum(bool(series_state.change_points(series.tolist())) for series in hosts) <= 5
    slower = np.where(np.arange(120) >= 60, 0.08, 0.0)
    assert sum(bool(series_state.change_points((series + slower).tolist())) for series in hosts) >= 45


def test_a_fence_is_not_narrower_than_what_matters() -> None:
    quiet = series_state.fence_around([0.0] * 20, TIME)
    assert quiet is not None
    assert quiet.near >= TIME.practical
    assert series_state.fence_around([0.0] * (series_state.FEWEST_NIGHTS - 1), TIME) is None
    exact = series_state.fence_around([0.0] * 20, Metric("peak_mem", "B", Better.LOWER, 0.02, noisy=False))
    assert exact is not None
    assert exact.near == pytest.approx(np.log(1.02))


def test_a_fence_is_as_wide_as_nights_scatter() -> None:
    values = np.random.default_rng(2).normal(0, 0.05, 20)
    found = series_state.fence_around(values, TIME)
    assert found is not None
    assert found.far == pytest.approx(4 * 1.4826 * np.median(np.abs(values - np.median(values))))
    values[:3] = 9.0  # disturbed nightly runs
    wild = series_state.fence_around(values, TIME)
    assert wild is not None
    assert wild.far < 3 * found.far


def test_a_drift_has_the_number_of_its_nightly_run() -> None:
    """Although earlier runs are not accepted, and one measured nothing."""
    logs = _step(95, 0.05)
    logs[60] = np.nan
    stands = series_state.state_of(series_state.History(np.arange(120), logs, np.empty((120, 0)), accepted=40), TIME)
    assert stands is not None
    assert stands.since is not None
    assert abs(stands.since - 95) <= 1
