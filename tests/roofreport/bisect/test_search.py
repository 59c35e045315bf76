# SPDX-License-Identifier: Apache-2.0
"""The search among commits whose effects are known: it finds the right one, and passes over undecided commits."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from roofreport.bisect.repository import Commit
from roofreport.bisect.search import Found, Progress, Search
from roofreport.errors import UnusableInputError
from roofreport.stats.verdict import Judgment, Verdict

GOOD = Commit("good", "the good one")


def commits(count: int) -> list[Commit]:
    return [Commit(f"{number:02}", f"change {number}") for number in range(count)]


class KnownSite:
    """Effects over the good commit, in order; `width`: half of an interval, of the first look."""

    def __init__(
        self, effects: list[float], broken: Iterable[int] = (), width: float = 0.01, unclear: Iterable[int] = ()
    ) -> None:
        self._effects = {"good": 0.0} | {f"{number:02}": effect for number, effect in enumerate(effects)}
        self._broken = {f"{number:02}" for number in broken}
        self._unclear = {f"{number:02}" for number in unclear}
        self._width = width
        self.count = len(effects)
        self.compared: list[tuple[str, str, int]] = []

    def build(self, commit: Commit) -> str:
        return "does not compile" if commit.id in self._broken else ""

    def compare(self, base: Commit, new: Commit, case: str, share: int) -> list[Judgment]:
        self.compared.append((base.id, new.id, share))
        effect = self._effects[new.id] - self._effects[base.id]
        width = 0.2 if new.id in self._unclear else self._width / math.sqrt(share)
        if effect - width > 0.01:
            verdict = Verdict.SLOWER
        else:
            verdict = Verdict.SAME if abs(effect) + width < 0.02 else Verdict.AMBIGUOUS
        found = [Judgment("a/n:1", verdict, effect, effect - width, effect + width, note="12 pairs")]
        other = Judgment("b/n:1", Verdict.SAME, 0.0, -0.01, 0.01)
        return found if case else [other, *found]


def _search(site: KnownSite, count: int, progress: Progress | None = None) -> Found:
    return Search(GOOD, site, progress or Progress("key"), lambda: None, lambda _: None).run(commits(count))


@pytest.mark.parametrize("plant", range(12))
def test_the_commit_is_found_wherever_it_is(plant: int) -> None:
    site = KnownSite([0.1 * (number >= plant) for number in range(12)])
    found = _search(site, 12)
    assert [commit.id for commit in found.commits] == [f"{plant:02}"]
    assert found.before.id == (f"{plant - 1:02}" if plant else "good")
    assert found.case == "a/n:1"
    assert found.judgment is not None
    assert found.judgment.effect == pytest.approx(0.1)
    assert len(site.compared) <= 2 + math.ceil(math.log2(12))


_FROM_FIVE = [0.1 * (number >= 5) for number in range(12)]


@pytest.mark.parametrize(
    ("site", "left"),
    [
        # A commit of +3 % is on the good side of one of +10 %, although it is SLOWER itself.
        (KnownSite([0.0, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.13]), ["07"]),
        (KnownSite(_FROM_FIVE, broken=[2, 8]), ["05"]),
        (KnownSite(_FROM_FIVE, broken=[4, 5]), ["04", "05", "06"]),
    ],
)
def test_the_commits_that_are_left(site: KnownSite, left: list[str]) -> None:
    found = _search(site, site.count)
    assert [commit.id for commit in found.commits] == left
    assert (found.judgment is None) == (len(left) > 1)


def test_more_pairs_come_before_skipping() -> None:
    site = KnownSite(_FROM_FIVE, width=0.06)
    assert [commit.id for commit in _search(site, 12).commits] == ["05"]
    assert {share for *_, share in site.compared} == {1, 3}
    site = KnownSite([0.1 * (number >= 3) for number in range(12)], unclear=[5])
    assert [commit.id for commit in _search(site, 12).commits] == ["03"]
    assert ("good", "05", 3) in site.compared


def test_a_bad_commit_that_is_not_slower_is_refused() -> None:
    with pytest.raises(UnusableInputError, match="no case is SLOWER"):
        _search(KnownSite([0.0] * 4), 4)
    with pytest.raises(UnusableInputError, match="does not compile"):
        _search(KnownSite([0.1] * 4, broken=[3]), 4)


def test_an_interrupted_search_continues() -> None:
    effects = [0.1 * (number >= 7) for number in range(12)]
    whole = KnownSite(effects)
    _search(whole, 12)
    progress = Progress("key")

    class Stopped(KnownSite):
        def compare(self, base: Commit, new: Commit, case: str, share: int) -> list[Judgment]:
            if len(self.compared) == 3:
                raise KeyboardInterrupt
            return super().compare(base, new, case, share)

    first = Stopped(effects)
    with pytest.raises(KeyboardInterrupt):
        _search(first, 12, progress)
    second = KnownSite(effects)
    assert [commit.id for commit in _search(second, 12, progress).commits] == ["07"]
    assert first.compared + second.compared == whole.compared
