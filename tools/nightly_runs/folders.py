# SPDX-License-Identifier: Apache-2.0
"""The folder of one night: results and journals, what each step said, and how far it came."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import count, takewhile
from pathlib import Path

_NAME = "%Y-%m-%dT%H%M%SZ"


@dataclass(frozen=True)
class Process:
    """One of the times that the suite runs in a night."""

    folder: Path
    number: int  # from 1

    @property
    def result(self) -> Path:
        return self.folder / (f"result-{self.number}.json" if self.number > 1 else "result.json")

    @property
    def journal(self) -> Path:
        return self.result.with_suffix(".journal.jsonl")

    @property
    def marker(self) -> Path:
        """There while the suite has not come to its end: tools/bench makes it, and takes it away."""
        return self.result.with_suffix(".unfinished")

    @property
    def is_unfinished(self) -> bool:
        return self.marker.exists()

    @property
    def has_ended(self) -> bool:
        return not self.is_unfinished and bool(self.files())

    def give_up(self) -> None:
        """Nobody can go on with it: what it has measured is all of it."""
        self.marker.unlink(missing_ok=True)

    def files(self) -> list[Path]:
        """What a history takes in; the one with a date first."""
        return [path for path in (self.result, self.journal) if path.exists() and path.stat().st_size]


@dataclass(frozen=True)
class Night:
    folder: Path

    @property
    def began(self) -> datetime:
        return datetime.strptime(self.folder.name, _NAME).replace(tzinfo=timezone.utc)

    def process(self, number: int) -> Process:
        return Process(self.folder, number)

    def processes(self) -> list[Process]:
        """Those that have begun."""
        all_of_them = map(self.process, count(1))
        return list(takewhile(lambda process: process.is_unfinished or process.has_ended, all_of_them))

    @property
    def is_unfinished(self) -> bool:
        return any(process.is_unfinished for process in self.processes())

    @property
    def is_added(self) -> bool:
        return (self.folder / "added").exists()

    @property
    def is_dated(self) -> bool:
        """Its run is of the moment that the folder is called after, whatever the clock said."""
        return (self.folder / "dated").exists()

    def log(self, step: str) -> Path:
        return self.folder / f"{step}.log"

    def findings(self, kind: str) -> Path:
        return self.folder / f"gate.{kind}"

    def set_added(self) -> None:
        (self.folder / "added").touch()

    def files(self) -> list[Path]:
        """What a history takes in."""
        return [path for process in self.processes() for path in process.files()]

    @property
    def is_pending(self) -> bool:
        """Measured, and not in the history yet."""
        return not self.is_added and not self.is_unfinished and bool(self.files())


def begin(nights: Path, given: datetime | None) -> Night:
    """The night of this moment, which may have begun already, or of now. Raises OSError."""
    moment = given or datetime.now(timezone.utc)
    night = Night(nights / moment.astimezone(timezone.utc).strftime(_NAME))
    night.folder.mkdir(parents=True, exist_ok=True)
    if given is not None:
        (night.folder / "dated").touch()
    return night


def all_nights(nights: Path) -> Iterator[Night]:
    """Oldest first. What else lies there is nobody's night."""
    for folder in sorted(nights.iterdir()):
        try:
            datetime.strptime(folder.name, _NAME)
        except ValueError:
            continue
        if folder.is_dir() and not folder.is_symlink():
            yield Night(folder)


def forget_old(nights: Path, keep: int) -> None:
    """Drops all but the newest folders, of those that hold no run which is not in the history."""
    old = [night for night in all_nights(nights) if not night.is_pending and not night.is_unfinished]
    for night in old[:-keep]:
        shutil.rmtree(night.folder)
