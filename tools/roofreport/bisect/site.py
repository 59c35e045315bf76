# SPDX-License-Identifier: Apache-2.0
"""Where a search builds commits and compares them: a work tree, and A B B A between what it left."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from roofreport.bisect.progress import Progress
from roofreport.bisect.repository import Commit, Repository
from roofreport.compare.abba import Abba, Options
from roofreport.compare.command import Command, filter_of, parse
from roofreport.errors import UnusableInputError
from roofreport.io.contract import Metric
from roofreport.stats.verdict import Judgement


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
