# SPDX-License-Identifier: Apache-2.0
"""The folder of a nightly run: results, journals, logs, and its progress."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import count, takewhile
from pathlib import Path

from roofreport.io.load import is_complete

_NAME = "%Y-%m-%dT%H%M%SZ"


@dataclass(frozen=True)
class Process:
    """One process of the suite in a nightly run."""

    folder: Path
    number: int  # from 1

    @property
    def result(self) -> Path:
        return self.folder / (f"result-{self.number}.json" if self.number > 1 else "result.json")

    @property
    def journal(self) -> Path:
        return self.result.with_suffix(".journal.jsonl")

    @property
    def kept_marker(self) -> Path:
        """Exists if the measured part counts as the whole."""
        return self.result.with_suffix(".kept")

    @property
    def is_unfinished(self) -> bool:
        return self.journal.exists() and not self.kept_marker.exists() and not is_complete(self.journal)

    @property
    def has_ended(self) -> bool:
        return not self.is_unfinished and self.record is not None

    def give_up(self) -> None:
        """Accepts the measured part as the whole: it cannot be resumed."""
        self.kept_marker.touch()

    @property
    def record(self) -> Path | None:
        """The file for the history: the journal, or JSON where a suite of one's own writes none."""
        return next((path for path in (self.journal, self.result) if path.exists() and path.stat().st_size), None)


@dataclass(frozen=True)
class NightlyRun:
    folder: Path

    @property
    def started(self) -> datetime:
        return datetime.strptime(self.folder.name, _NAME).replace(tzinfo=timezone.utc)

    def process(self, number: int) -> Process:
        return Process(self.folder, number)

    def processes(self) -> list[Process]:
        """Those that have started."""
        numbered = map(self.process, count(1))
        return list(takewhile(lambda process: process.record, numbered))

    @property
    def is_unfinished(self) -> bool:
        return not self.added_marker.exists() and any(process.is_unfinished for process in self.processes())

    @property
    def added_marker(self) -> Path:
        return self.folder / "added"

    @property
    def date_marker(self) -> Path:
        """Exists if the folder's name is the date of the run, whatever the clock showed."""
        return self.folder / "dated"

    def log(self, step: str) -> Path:
        return self.folder / f"{step}.log"

    def findings(self, kind: str) -> Path:
        return self.folder / f"gate.{kind}"

    def records(self) -> list[Path]:
        """The files for the history."""
        return [process.record for process in self.processes() if process.record]

    @property
    def is_pending(self) -> bool:
        """Measured, but not in the history yet."""
        return not self.added_marker.exists() and not self.is_unfinished and bool(self.records())


def start(folder: Path, given: datetime | None) -> NightlyRun:
    """The run of this date, which may exist already, or a new one. Raises OSError."""
    moment = given or datetime.now(timezone.utc)
    run = NightlyRun(folder / moment.astimezone(timezone.utc).strftime(_NAME))
    run.folder.mkdir(parents=True, exist_ok=True)
    if given is not None:
        run.date_marker.touch()
    return run


def all_runs(folder: Path) -> Iterator[NightlyRun]:
    """Oldest first. Ignores other files and folders."""
    for entry in sorted(folder.iterdir()):
        try:
            datetime.strptime(entry.name, _NAME)
        except ValueError:
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield NightlyRun(entry)


def delete_old(folder: Path, keep: int) -> None:
    """Deletes all but the newest folders, except those with results that the history lacks."""
    old = [run for run in all_runs(folder) if not run.is_pending and not run.is_unfinished]
    for run in old[:-keep]:
        shutil.rmtree(run.folder)
