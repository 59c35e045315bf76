# SPDX-License-Identifier: Apache-2.0
"""The decision rule of A B B A on synthetic processes."""

from __future__ import annotations

import math
import re

import builders
import numpy as np
import pytest
from roofreport.io.contract import TIME
from roofreport.stats import places, sequential
from roofreport.stats.sequential import Trial
from roofreport.stats.verdict import Verdict
from roofreport.studies import error_rate
from roofreport.studies.noise import ARMS, INJECTED, order_of, simulated_pool


def _trial(effect: float, deviation: float, pairs: int, seed: int = 0) -> Trial:
    random = np.random.default_rng(seed)
    trial = Trial("a")
    trial.base = list(random.normal(0, deviation, pairs))
    trial.new = list(random.normal(effect, deviation, pairs))
    return trial


def test_neighbors_are_of_one_side() -> None:
    trial = Trial("a", base=[1, 2, 4, 8], new=[10, 30, 70, 150])
    assert trial.neighbors() == [20, 2, 80]
    turned = Trial("a", base_first=False, base=[1, 2, 4, 8], new=[10, 30, 70, 150])
    assert turned.neighbors() == [1, 40, 4]


def test_the_program_and_its_reports_tell_places_apart_alike() -> None:
    program = (builders.ROOT / "lib/hardware/conditions/handover.cc").read_text()
    assert re.findall(r"kMoved = ([\d.]+);", program) == [str(places.MOVED)]


def test_processes_whose_threads_are_more_apart_are_not_compared() -> None:
    handovers: list[tuple[float | None, float | None]] = [(60, 65), (60, 270), (265, 270), (None, 280)]
    trial = Trial("a", base=[1, 2, 4, 8], new=[10, 30, 70, 150], handovers=handovers)
    assert trial.differences() == [9, 66, 142]
    assert trial.neighbors() == [80], "of the last two of new; the others are apart"
    assert (trial.pairs, trial.left_out) == (3, 1)
    judged = trial.judgment()
    assert judged.note == "3 pairs, 1 more apart"
    assert (judged.base, judged.new) == pytest.approx((math.exp(4), math.exp(70))), "of the pairs that count"
    assert math.isfinite(judged.floor)
    moving = Trial("a", base=[1, 2], new=[10, 30], handovers=[(60, 60), (270, 270)])
    assert math.isinf(moving.floor()) and math.isnan(moving.judgment().floor), "no neighbors, no figure"
    alone = Trial("a", base=[1, 2], new=[10, 30], handovers=handovers[:2])
    assert alone.judgment().note == "1 pair, 1 more apart", "why it is not judged"


@pytest.mark.parametrize(("near", "verdict"), [(8, Verdict.SLOWER), (5, None)])
def test_a_few_pairs_of_one_place_decide_what_they_can(near: int, verdict: Verdict | None) -> None:
    trial = _trial(0.3, 0.002, 10)
    trial.handovers = [(60, 60 if pair < near else 270) for pair in range(10)]
    sequential.look([trial], 1.0)
    assert trial.verdict is verdict


def test_two_places_that_come_and_go_make_no_difference() -> None:
    """A machine whose processors move between two places, in one of which everything takes 1.4 times as long."""
    random = np.random.default_rng(3)
    called = {True: 0, False: 0}
    for _ in range(100):
        far = [random.random(2) < 0.5 for _ in range(40)]
        noise = random.normal(0, 0.003, (40, 2))
        for known in called:
            trial = Trial("a")
            trial.base, trial.new = (
                [0.34 * one[side] + noise[i][side] for i, one in enumerate(far)] for side in (0, 1)
            )
            trial.handovers = [(60 + 210 * one[0], 60 + 210 * one[1]) for one in far] if known else []
            sequential.look([trial], 1.0)
            called[known] += trial.verdict is Verdict.SAME
    assert called[True] >= 90 and called[False] < 50


@pytest.mark.parametrize(
    ("effect", "deviation", "verdict"),
    [(0.05, 0.01, Verdict.SLOWER), (-0.05, 0.01, Verdict.FASTER), (0.0, 0.005, Verdict.SAME), (0.03, 0.2, None)],
)
def test_verdicts(effect: float, deviation: float, verdict: Verdict | None) -> None:
    trial = _trial(effect, deviation, 20)
    sequential.look([trial], 1.0)
    assert trial.verdict is verdict
    assert trial.judgment().verdict is (verdict or Verdict.AMBIGUOUS)


def test_a_certain_change_below_the_floor_is_not_called() -> None:
    trial = _trial(0.004, 0.0005, 30)
    sequential.look([trial], 1.0)
    assert trial.verdict is Verdict.SAME


def test_the_floor_follows_the_noise_of_one_side() -> None:
    assert _trial(0.0, 0.001, 30).floor() == pytest.approx(np.log1p(TIME.practical))
    assert _trial(0.0, 0.1, 30).floor() > 0.02


def test_what_is_significant_at_five_percent_alone_is_not_called() -> None:
    tried = 0
    for seed in range(400):
        trial = _trial(0.03, 0.05, 20, seed)
        p_value = sequential.p_value(trial.differences())
        if not 0.012 < p_value < 0.05 or abs(trial.judgment().effect) < np.expm1(trial.floor()):
            continue
        tried += 1
        sequential.look([trial], 1.0)
        assert trial.verdict is None
    assert tried > 20


def test_decided_cases_keep_their_verdict() -> None:
    trial = _trial(0.1, 0.01, 12)
    sequential.look([trial], 0.5)
    assert trial.verdict is Verdict.SLOWER
    trial.new = list(trial.base)
    sequential.look([trial], 1.0)
    assert trial.verdict is Verdict.SLOWER


def test_few_pairs_are_not_looked_at() -> None:
    trial = _trial(0.5, 0.01, 9)
    sequential.look([trial], 1.0)
    assert trial.verdict is None


def test_one_changed_case_among_many_is_found() -> None:
    trials = [_trial(0.0, 0.01, 20, seed) for seed in range(1, 40)] + [_trial(0.08, 0.01, 20)]
    sequential.look(trials, 1.0)
    assert trials[-1].verdict is Verdict.SLOWER


def test_rates_on_synthetic_noise() -> None:
    """The promises of the rule, on the noise that it was chosen on: a tenth of tools/error_rate simulate."""
    random = np.random.default_rng(1)
    pools = [simulated_pool(random, 42, 7.0) for _ in range(20)]
    called = {new: float(np.mean(error_rate.rates(pools, base, new, 42).called)) for base, new in error_rate.PAIRS}
    assert called["base2"] <= 0.02
    assert called["slow3"] >= 0.6
    assert called["slow5"] >= 0.9


def test_compared_arms_run_next_to_each_other_in_turns() -> None:
    for base, new in error_rate.PAIRS:
        assert abs(ARMS.index(base) - ARMS.index(new)) == 1
        assert INJECTED[base] == 0
    assert order_of(1) == order_of(0)[::-1]
    assert order_of(2) == order_of(0)
