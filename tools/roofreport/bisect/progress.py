# SPDX-License-Identifier: Apache-2.0
"""What a search has found out so far, on disk, so that it can be resumed."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

from roofreport import files
from roofreport.errors import UnusableInputError
from roofreport.io import strict_json
from roofreport.io.source import read_text

_FILE = "bisect.json"
GOOD, BAD, SKIP = OUTCOMES = ("good", "bad", "skip")


@dataclass
class Outcome:
    """Of one commit against the good one."""

    kind: str  # one of OUTCOMES
    effect: float = 0.0  # relative
    note: str = ""


@dataclass
class Progress:
    key: str  # of what is asked
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
    """None if nothing was begun. Raises UnusableInputError for the state of another search."""
    path = folder / _FILE
    if not path.exists():
        return None
    try:
        found = strict_json.parse(read_text(path))
        outcomes = {name: Outcome(**outcome) for name, outcome in found.pop("outcomes").items()}
        progress = Progress(**found, outcomes=outcomes)
        _check(progress)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnusableInputError(f"{path} is damaged ({error}); remove the folder to start anew") from error
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
