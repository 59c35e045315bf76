# SPDX-License-Identifier: Apache-2.0
"""A small synthetic year: the gate meets its targets in it, and gates that are wrong do not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from roofreport.gate import series_state
from roofreport.gate.series_state import SeriesState
from roofreport.stats.verdict import Verdict
from roofreport.studies import noise, simulated_year
from roofreport.studies.noise import Year
from roofreport.studies.simulated_year import Conditions, Fault, Tally, is_met

SERIES, NIGHTS = 9, 200
# The year includes nights without a measurement.
pytestmark = pytest.mark.filterwarnings("ignore:All-NaN slice")


@pytest.fixture(scope="module")
def made() -> Year:
    return noise.simulated(np.random.default_rng(3), SERIES, NIGHTS, 3)


@pytest.fixture(scope="module")
def faults(made: Year) -> list[list[Fault]]:
    return simulated_year.injected(np.random.default_rng(4), SERIES, NIGHTS, (0, made.driver_night))


def _gated(made: Year, faults: list[list[Fault]], rule: simulated_year.Rule = simulated_year.with_base) -> Tally:
    return simulated_year.gated(made, faults, np.random.default_rng(5), rule)


@pytest.mark.nightly
def test_the_targets_are_met(made: Year, faults: list[list[Fault]]) -> None:
    assert is_met(_gated(made, faults), SERIES)


@pytest.mark.nightly
def test_a_wide_fence_finds_too_little(made: Year, faults: list[list[Fault]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_state, "NEAR", 12.0)
    monkeypatch.setattr(series_state, "PENALTY", 1e9)
    assert not is_met(_gated(made, faults), SERIES)


@pytest.mark.nightly
def test_a_gate_without_a_second_run_raises_false_alarms(made: Year, faults: list[list[Fault]]) -> None:
    def always(stands: SeriesState, conditions: Conditions) -> bool:
        return stands.excess > stands.fence.near

    tally = _gated(made, faults, always)
    assert tally.false_alarms > 2 * SERIES


def test_thresholds_do_worse(made: Year, faults: list[list[Fault]]) -> None:
    doubled, five = (simulated_year.plain(made, faults, limit) for limit in (1.0, 0.05))
    assert doubled.found(0.08, simulated_year.LATEST) == 0
    assert five.false_alarms > 10 * SERIES


def test_nothing_is_known_of_later_nights() -> None:
    """Later nightly runs do not change earlier verdicts."""
    last = 40
    made = noise.simulated(np.random.default_rng(3), 2, 100, 3)
    other = replace(made, log_times=made.log_times.copy(), log_rates=made.log_rates.copy())
    other.log_times[last:] *= 3.0
    other.log_rates[last:] *= 3.0
    heard = []
    for one in (made, other):
        said: list[SeriesState] = []

        def listen(stands: SeriesState, conditions: Conditions, said: list[SeriesState] = said) -> bool:
            said.append(stands)
            return False

        simulated_year.gated(one, [[], []], np.random.default_rng(5), listen)
        heard.append(said[: last - 15])
    assert heard[0] == heard[1]


def test_a_second_run_is_drawn_from_the_noise() -> None:
    """It misses and errs as any comparison does: an injected slowdown reaches it as a factor on its times alone."""
    random = np.random.default_rng(6)

    def share(slowdown: float) -> float:
        conditions = [Conditions(random, 0.5, 0.0, math.log1p(slowdown), 0.0, 0.5) for _ in range(40)]
        return float(np.mean([one.abba() is Verdict.SLOWER for one in conditions]))

    assert share(0.0) <= 0.05
    assert 0.05 < share(0.02) < 0.95
    assert share(0.08) >= 0.95
