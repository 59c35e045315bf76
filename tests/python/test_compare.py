# SPDX-License-Identifier: Apache-2.0
"""A B B A of two functions in one process."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import roofbench
from roofbench import _measure


def _twice(x: Any) -> Any:
    return x + x


def _product(x: Any) -> Any:
    return 2 * x


class _Clock:
    """Samples of given medians in the place of the sampler's, in the order in which the functions are sampled."""

    def __init__(self, seconds: Callable[[str, int], float]) -> None:
        self.order: list[str] = []
        self._seconds = seconds

    def samples(self, subject: _measure.Subject) -> None:
        self.order.append(subject.name)
        median = self._seconds(subject.name, self.order.count(subject.name) - 1)
        line = {"samples_s": [median] * 9, "median_s": median}
        subject.sampled = _measure.Sampled(line, "", 0.0, None, None, [])


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[str, int], float]], _Clock]]:
    def set_up(seconds: Callable[[str, int], float]) -> _Clock:
        clock = _Clock(seconds)
        monkeypatch.setattr(_measure.Subject, "judged_samples", clock.samples)
        monkeypatch.setattr(_measure.Subject, "check_after", lambda self: None)
        return clock

    yield set_up


def _scatter(turn: int) -> float:
    return float(1 + 0.001 * np.sin(13 * turn))


_X = np.ones(200, np.float32)


@pytest.mark.parametrize(("ratio", "verdict"), [(1.2, "SLOWER"), (0.8, "FASTER"), (1.0, "SAME")])
def test_verdict(ratio: float, verdict: str, timed: Any) -> None:
    timed(lambda name, turn: _scatter(turn + (name == "_product")) * (ratio if name == "_product" else 1) * 1e-3)
    found = roofbench.compare(_twice, _product, _X, budget=0.5)
    assert found.verdict == verdict
    assert found.judgment is not None
    assert found.judgment.effect == pytest.approx(ratio - 1, abs=0.01)
    assert re.search(rf"s: {verdict}, change within \d+ pairs [+-]", repr(found))
    assert verdict in found._repr_html_()


def test_difference_within_the_scatter_is_ambiguous(timed: Any) -> None:
    generator = np.random.default_rng(1)
    timed(lambda name, turn: 1e-3 * float(np.exp(0.3 * generator.standard_normal())))
    assert roofbench.compare(_twice, _product, _X, budget=0.5).verdict == "AMBIGUOUS"


def test_functions_take_turns(timed: Any) -> None:
    clock = timed(lambda name, turn: 1e-3 * _scatter(turn))
    roofbench.compare(_twice, _product, _X, budget=0.5)
    assert clock.order[:8] == ["_twice", "_product", "_product", "_twice"] * 2


def test_wrong_function_fails() -> None:
    found = roofbench.compare(_twice, lambda x: 3 * x, _X)
    assert found.verdict == "FAILED" and not found.ok
    assert "wrong result" in repr(found)
    assert "wrong result" in found._repr_html_()
    assert found.base.ok


def test_reference_judges_both() -> None:
    found = roofbench.compare(lambda x: 3 * x, _product, _X, reference=lambda x: 2 * x)
    assert "wrong result" in found.base.failure and found.new.ok


def test_one_function_against_itself() -> None:
    found = roofbench.compare(_twice, _twice, _X, budget=0.2, pairs=10, max_samples=20)
    assert found.ok and found.pairs == 10
    assert {found.base.name, found.new.name} == {"_twice/side:A", "_twice/side:B"}


def test_cheat_after_the_samples_fails() -> None:
    kept: list[Any] = []

    def cheat(x: Any) -> Any:
        if len(kept) < 5:
            kept.append(2 * x)
        return kept[-1]

    found = roofbench.compare(_twice, cheat, _X, budget=0.1, pairs=10, max_samples=20)
    assert found.verdict == "FAILED" and "wrong result" in found.new.failure


def test_values_are_restored() -> None:
    x = np.arange(100, dtype=np.float32)
    roofbench.compare(_twice, _product, x, budget=0.1, pairs=10, max_samples=20)
    assert np.array_equal(x, np.arange(100, dtype=np.float32))


def test_without_roofreport_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "roofreport.stats", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[history\]'"):
        roofbench.compare(_twice, _product, _X)
