# SPDX-License-Identifier: Apache-2.0
"""Which commit made a case slower: halves the commits between a good and a bad one until one is left.

Every commit is compared with the good one by A B B A. It is bad where the interval of its effect lies above half of
what the bad commit lost, good where it lies below. Where the interval reaches to both sides, more pairs are taken;
if they do not help, the commit is skipped like one that does not build. The progress is on disk, so that a search
can be resumed.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from roofreport import files, units
from roofreport.bisect.repository import Commit, Repository
from roofreport.compare.abba import Abba, Options
from roofreport.compare.command import Command, filter_of, parse
from roofreport.errors import UnusableInputError
from roofreport.io import source
from roofreport.io.contract import Metric
from roofreport.io.source import read_text
from roofreport.stats.verdict import Judgement, Verdict
from roofreport.text import printable

_FILE = "bisect.json"
GOOD, BAD, SKIP = OUTCOMES = ("good", "bad", "skip")


@dataclass
class Outcome:
    """The outcome of one commit against the good one."""

    kind: str  # one of OUTCOMES
    effect: float = 0.0  # relative
    note: str = ""


@dataclass
class Progress:
    key: str  # of the question
    case: str = ""  # that is followed: the one that lost most
    effect: float = 0.0  # of the bad commit, as a logarithm
    builds: int = 0
    outcomes: dict[str, Outcome] = field(default_factory=dict)  # by commit


def save(folder: Path, progress: Progress) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.write_text(folder / _FILE, json.dumps(asdict(progress), indent=1))
    except OSError as error:
        raise UnusableInputError(f"cannot write the state to {folder}: {files.reason(error)}") from error


def restore(folder: Path, key: str) -> Progress | None:
    """None if a search was not begun. Raises UnusableInputError for the state of another search."""
    path = folder / _FILE
    if not path.exists():
        return None
    try:
        found = source.parse_json(read_text(path))
        outcomes = {name: Outcome(**outcome) for name, outcome in found.pop("outcomes").items()}
        progress = Progress(**found, outcomes=outcomes)
        _check(progress)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnusableInputError(f"{path} is damaged ({error}); remove the folder to start again") from error
    if progress.key != key:
        raise UnusableInputError(
            f"{folder} holds another search (other commits, cases, build or budget); name another --state, or remove"
            " the folder"
        )
    return progress


def _check(progress: Progress) -> None:
    fine = (
        isinstance(progress.key, str)
        and isinstance(progress.case, str)
        and isinstance(progress.builds, int)
        and isinstance(progress.effect, (int, float))
        and math.isfinite(progress.effect)
        and all(one.kind in OUTCOMES and isinstance(one.note, str) for one in progress.outcomes.values())
    )
    if not fine:
        raise ValueError("its fields are of other kinds")


MORE = 3  # times the budget, where the first comparison was undecided


class Site(Protocol):
    """Where commits are built and compared."""

    def build(self, commit: Commit) -> str:
        """Empty, or why it cannot be built."""

    def compare(self, base: Commit, new: Commit, case: str, share: int) -> list[Judgement]:
        """Compares built commits, in `share` times the budget. `case`: empty for all requested cases."""


@dataclass(frozen=True)
class Found:
    """`commits`: one, or a range that includes untestable commits; oldest first."""

    commits: Sequence[Commit]
    before: Commit
    case: str
    judgement: Judgement | None  # of the commit against the one before it; None: not one commit
    builds: int


def search(
    good: Commit,
    commits: Sequence[Commit],
    site: Site,
    progress: Progress,
    save: Callable[[], None],
    say: Callable[[str], None],
) -> Found:
    """`commits`: after `good`, oldest first; the last one is bad."""
    worker = _Worker(good, site, progress, save, say)
    worker.measure_the_whole(commits[-1])
    low, high = -1, len(commits) - 1  # the newest one that is good, the oldest one that is bad
    while True:
        between = [i for i in range(low + 1, high) if worker.kind(commits[i]) != SKIP]
        known = {i: worker.kind(commits[i]) for i in between}
        low = max([low, *(i for i in between if known[i] == GOOD)])
        high = min([high, *(i for i in between if known[i] == BAD and i > low)])
        between = [i for i in between if low < i < high]
        if not between:
            break
        middle = min(between, key=lambda i: abs(2 * i - low - high))
        say(f"{high - low - 1} commits left between; {commits[middle].text()}")
        worker.try_one(commits[middle])
    before = commits[low] if low >= 0 else good
    left = commits[low + 1 : high + 1]
    judgement = worker.judge_the_end(before, left[0]) if len(left) == 1 else None
    return Found(left, before, progress.case, judgement, progress.builds)


class _Worker:
    def __init__(
        self, good: Commit, site: Site, progress: Progress, save: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        self._good = good
        self._site = site
        self._progress = progress
        self._save = save
        self._say = say

    def kind(self, commit: Commit) -> str:
        outcome = self._progress.outcomes.get(commit.id)
        return outcome.kind if outcome else ""

    def measure_the_whole(self, bad: Commit) -> None:
        if self._progress.case:
            self._say(f"continues with {printable(self._progress.case, 300)}")
            return
        for commit in (self._good, bad):
            why = self._build(commit)
            if why:
                raise UnusableInputError(f"{commit.text()}: {why}")
        judgements: list[Judgement] = []
        for share in (1, MORE):
            judgements = self._site.compare(self._good, bad, "", share)
            slower = [one for one in judgements if one.verdict is Verdict.SLOWER]
            if slower:
                worst = max(slower, key=lambda one: abs(one.effect))
                self._progress.case, self._progress.effect = worst.name, math.log1p(worst.effect)
                self._progress.outcomes[bad.id] = Outcome(BAD, worst.effect)
                self._save()
                self._say(
                    f"{printable(worst.name, 300)}: {units.percent(worst.effect)} from the good commit to the bad"
                )
                return
            if all(one.verdict is not Verdict.AMBIGUOUS for one in judgements):
                break
        said = ", ".join(sorted({one.verdict.value for one in judgements}))
        raise UnusableInputError(f"no case is SLOWER in {bad.text()} than in {self._good.text()} ({said})")

    def try_one(self, commit: Commit) -> None:
        outcome = self._tried(commit)
        self._progress.outcomes[commit.id] = outcome
        self._save()
        effect = "" if outcome.kind == SKIP else f", {units.percent(outcome.effect)}"
        self._say(f"{commit.text()}: {outcome.kind}{effect}{f' ({outcome.note})' if outcome.note else ''}")

    def _tried(self, commit: Commit) -> Outcome:
        why = self._build(commit)
        if why:
            return Outcome(SKIP, note=why)
        outcome = Outcome(SKIP)
        for share in (1, MORE):
            found = self._site.compare(self._good, commit, self._progress.case, share)
            judgement = next((one for one in found if one.name == self._progress.case), None)
            outcome = self._outcome(judgement)
            if outcome.kind != SKIP or judgement is None or math.isnan(judgement.effect):
                return outcome
            if share != MORE:
                self._say(f"{commit.text()}: {outcome.note}; more pairs")
        return outcome

    def _outcome(self, judgement: Judgement | None) -> Outcome:
        if judgement is None or math.isnan(judgement.effect):
            return Outcome(SKIP, note=f"not measured: {judgement.note if judgement else 'it lacks the case'}")
        # For a rate, worse is less: both are compared on the side of the whole effect.
        sign = math.copysign(1.0, self._progress.effect)
        ends = sorted(sign * math.log1p(max(end, -0.999999)) for end in (judgement.low, judgement.high))
        half = abs(self._progress.effect) / 2
        if ends[0] > half:
            return Outcome(BAD, judgement.effect, judgement.note)
        if ends[1] < half:
            return Outcome(GOOD, judgement.effect, judgement.note)
        interval = f"{units.percent(judgement.low)[:-2]} … {units.percent(judgement.high)}"
        return Outcome(SKIP, judgement.effect, f"AMBIGUOUS, {interval}")

    def judge_the_end(self, before: Commit, commit: Commit) -> Judgement | None:
        for one in (before, commit):
            if self._build(one):
                return None
        found = self._site.compare(before, commit, self._progress.case, 1)
        return next((one for one in found if one.name == self._progress.case), None)

    def _build(self, commit: Commit) -> str:
        return self._site.build(commit)


@dataclass(frozen=True)
class Question:
    filter: str
    metric: Metric
    flags: tuple[str, ...]
    budget: float  # seconds of a comparison
    max_time: float | None
    pairs: int | None


class Workshop:
    def __init__(
        self, repository: Repository, question: Question, folder: Path, progress: Progress, say: Callable[[str], None]
    ) -> None:
        self._repository = repository
        self._question = question
        self._folder = folder
        self._progress = progress
        self._say = say

    def build(self, commit: Commit) -> str:
        if self._repository.program(commit) is not None:
            return ""
        self._say(f"builds {commit.text()}")
        self._progress.builds += 1
        return self._repository.build(commit)

    def compare(self, base: Commit, new: Commit, case: str, share: int) -> list[Judgement]:
        asked = self._question
        chosen = filter_of([case]) if case else f"--benchmark_filter={asked.filter}"
        commands = [self._command(commit, chosen) for commit in (base, new)]
        folder = self._folder / "compared" / f"{base.id[:12]}-{new.id[:12]}-{share}{'' if case else '-all'}"
        pairs = None if asked.pairs is None else asked.pairs * share
        options = Options(
            commands[0], commands[1], asked.budget * share, folder, asked.max_time, pairs, metric=asked.metric
        )
        return Abba(options, self._say).run()

    def _command(self, commit: Commit, chosen: str) -> Command:
        path = self._repository.program(commit)
        if path is None:
            raise UnusableInputError(f"{commit.text()}: what was built is gone")
        return parse(shlex.quote(str(path.resolve())), (*self._question.flags, chosen))
