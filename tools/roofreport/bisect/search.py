# SPDX-License-Identifier: Apache-2.0
"""Which commit made a case slower: halves the commits between a good and a bad one until one is left.

Every commit is compared with the good one by A B B A. It is bad where the interval of its effect lies above half of
what the bad commit lost, good where it lies below. Where the interval reaches to both sides, more pairs are taken;
if they do not help, the commit is skipped like one that does not build. The progress is on disk, so that a search
can be resumed.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from roofreport import units
from roofreport.bisect.repository import Commit, Repository
from roofreport.compare.abba import Abba, Options
from roofreport.compare.command import Command, filter_of, parse
from roofreport.errors import UnusableInputError
from roofreport.io.contract import Metric
from roofreport.stats.verdict import Judgment, Verdict
from roofreport.text import printable

GOOD, BAD, SKIP = OUTCOMES = ("good", "bad", "skip")


@dataclass
class Outcome:
    """The outcome of one commit against the good one."""

    kind: str  # one of OUTCOMES
    effect: float = 0.0  # relative
    note: str = ""

    def __post_init__(self) -> None:
        if self.kind not in OUTCOMES:
            raise ValueError(f"the outcome {self.kind}")


@dataclass
class Progress:
    key: str  # of the question
    case: str = ""  # that is followed: the one that lost most
    effect: float = 0.0  # of the bad commit, as a logarithm
    builds: int = 0
    outcomes: dict[str, Outcome] = field(default_factory=dict)  # by commit


MORE = 3  # times the budget, where the first comparison was undecided


class Site(Protocol):
    """Where commits are built and compared."""

    def build(self, commit: Commit) -> str:
        """Empty, or why it cannot be built."""

    def compare(self, base: Commit, new: Commit, case: str, share: int) -> list[Judgment]:
        """Compares built commits, in `share` times the budget. `case`: empty for all requested cases."""


@dataclass(frozen=True)
class Found:
    """`commits`: one, or a range that includes untestable commits; oldest first."""

    commits: Sequence[Commit]
    before: Commit
    case: str
    judgment: Judgment | None  # of the commit against the one before it; None: not one commit
    builds: int


@dataclass(frozen=True)
class Search:
    good: Commit
    site: Site
    progress: Progress
    save: Callable[[], None]
    say: Callable[[str], None]

    def run(self, commits: Sequence[Commit]) -> Found:
        """`commits`: after the good one, oldest first; the last one is bad."""
        self._measure_the_whole(commits[-1])
        low, high = -1, len(commits) - 1  # the newest one that is good, the oldest one that is bad
        while True:
            kinds = {i: self._kind(commits[i]) for i in range(low + 1, high)}
            low = max([low, *(i for i, kind in kinds.items() if kind == GOOD)])
            high = min([high, *(i for i, kind in kinds.items() if kind == BAD and i > low)])
            between = [i for i, kind in kinds.items() if kind != SKIP and low < i < high]
            if not between:
                break
            middle = min(between, key=lambda i: abs(2 * i - low - high))
            self.say(f"{high - low - 1} commits left between; {commits[middle].text()}")
            self._try(commits[middle])
        before = commits[low] if low >= 0 else self.good
        left = commits[low + 1 : high + 1]
        judgment = self._judge_the_end(before, left[0]) if len(left) == 1 else None
        return Found(left, before, self.progress.case, judgment, self.progress.builds)

    def _kind(self, commit: Commit) -> str:
        outcome = self.progress.outcomes.get(commit.id)
        return outcome.kind if outcome else ""

    def _measure_the_whole(self, bad: Commit) -> None:
        if self.progress.case:
            self.say(f"continues with {printable(self.progress.case, 300)}")
            return
        for commit in (self.good, bad):
            why = self.site.build(commit)
            if why:
                raise UnusableInputError(f"{commit.text()}: {why}")
        judgments: list[Judgment] = []
        for share in (1, MORE):
            judgments = self.site.compare(self.good, bad, "", share)
            slower = [one for one in judgments if one.verdict is Verdict.SLOWER]
            if slower:
                worst = max(slower, key=lambda one: abs(one.effect))
                self.progress.case, self.progress.effect = worst.name, math.log1p(worst.effect)
                self.progress.outcomes[bad.id] = Outcome(BAD, worst.effect)
                self.save()
                self.say(f"{printable(worst.name, 300)}: {units.percent(worst.effect)} from the good commit to the bad")
                return
            if all(one.verdict is not Verdict.AMBIGUOUS for one in judgments):
                break
        said = ", ".join(sorted({one.verdict.value for one in judgments}))
        raise UnusableInputError(f"no case is SLOWER in {bad.text()} than in {self.good.text()} ({said})")

    def _try(self, commit: Commit) -> None:
        outcome = self.progress.outcomes[commit.id] = self._tried(commit)
        self.save()
        effect = "" if outcome.kind == SKIP else f", {units.percent(outcome.effect)}"
        self.say(f"{commit.text()}: {outcome.kind}{effect}{f' ({outcome.note})' if outcome.note else ''}")

    def _tried(self, commit: Commit) -> Outcome:
        why = self.site.build(commit)
        if why:
            return Outcome(SKIP, note=why)
        outcome = Outcome(SKIP)
        for share in (1, MORE):
            judgment = self._compared(self.good, commit, share)
            outcome = self._outcome(judgment)
            if outcome.kind != SKIP or judgment is None or math.isnan(judgment.effect):
                return outcome
            if share != MORE:
                self.say(f"{commit.text()}: {outcome.note}; more pairs")
        return outcome

    def _compared(self, base: Commit, new: Commit, share: int) -> Judgment | None:
        """None if the case that is followed is not in both."""
        found = self.site.compare(base, new, self.progress.case, share)
        return next((one for one in found if one.name == self.progress.case), None)

    def _outcome(self, judgment: Judgment | None) -> Outcome:
        if judgment is None or math.isnan(judgment.effect):
            return Outcome(SKIP, note=f"not measured: {judgment.note if judgment else 'it lacks the case'}")
        # For a rate, worse is less: both are compared on the side of the whole effect.
        sign = math.copysign(1.0, self.progress.effect)
        ends = sorted(sign * math.log1p(max(end, -0.999999)) for end in (judgment.low, judgment.high))
        half = abs(self.progress.effect) / 2
        if ends[0] > half:
            return Outcome(BAD, judgment.effect, judgment.note)
        if ends[1] < half:
            return Outcome(GOOD, judgment.effect, judgment.note)
        return Outcome(SKIP, judgment.effect, f"AMBIGUOUS, {judgment.interval()}")

    def _judge_the_end(self, before: Commit, commit: Commit) -> Judgment | None:
        if any(self.site.build(one) for one in (before, commit)):
            return None
        return self._compared(before, commit, 1)


@dataclass(frozen=True)
class Question:
    filter: str
    metric: Metric
    flags: tuple[str, ...]
    budget: float  # seconds of a comparison
    max_time: float | None
    pairs: int | None


@dataclass(frozen=True)
class Workshop:
    repository: Repository
    question: Question
    folder: Path
    progress: Progress
    say: Callable[[str], None]

    def build(self, commit: Commit) -> str:
        if self.repository.program(commit) is not None:
            return ""
        self.say(f"builds {commit.text()}")
        self.progress.builds += 1
        return self.repository.build(commit)

    def compare(self, base: Commit, new: Commit, case: str, share: int) -> list[Judgment]:
        asked = self.question
        chosen = filter_of([case]) if case else f"--benchmark_filter={asked.filter}"
        folder = self.folder / "compared" / f"{base.id[:12]}-{new.id[:12]}-{share}{'' if case else '-all'}"
        pairs = None if asked.pairs is None else asked.pairs * share
        old, late = (self._command(commit, chosen) for commit in (base, new))
        options = Options(old, late, asked.budget * share, folder, asked.max_time, pairs, metric=asked.metric)
        return Abba(options, self.say).run()

    def _command(self, commit: Commit, chosen: str) -> Command:
        path = self.repository.program(commit)
        if path is None:
            raise UnusableInputError(f"{commit.text()}: the built program is gone")
        return parse(shlex.quote(str(path.resolve())), (*self.question.flags, chosen))
