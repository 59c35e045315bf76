# SPDX-License-Identifier: Apache-2.0
"""What an A B B A comparison has done so far, on disk, so that it can be resumed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from roofreport.errors import UnusableInputError

_FILE = "state.json"
_VERSION = 1


@dataclass
class State:
    """`key` says what is compared. `pairs` holds, for each finished pair, the cases that it ran and its seconds."""

    key: str
    cases: list[str]
    max_time: float
    seconds: float = 0.0  # of the budget, used up
    pairs: list[dict[str, Any]] = field(default_factory=list)
    closed: dict[str, list[str]] = field(default_factory=dict)  # case to verdict and note: what gives no times
    version: int = _VERSION


def save(folder: Path, state: State) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Whole or not at all.
        partial = folder / (_FILE + ".part")
        partial.write_text(json.dumps(asdict(state), indent=1))
        partial.replace(folder / _FILE)
    except OSError as error:
        raise UnusableInputError(f"cannot write the state to {folder}: {error.strerror}") from error


def restore(folder: Path, key: str) -> State | None:
    """None if nothing was begun. Raises UnusableInputError for the state of another comparison."""
    path = folder / _FILE
    if not path.exists():
        return None
    try:
        fields = json.loads(path.read_text())
        if fields["version"] != _VERSION:
            raise ValueError(f"version {fields['version']}")
        state = State(**fields)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UnusableInputError(f"{path} is damaged ({error}); remove the folder to start anew") from error
    if state.key != key:
        raise UnusableInputError(
            f"{folder} holds another comparison (other programs, flags, cases or budget);"
            " name another --state, or remove the folder"
        )
    return state


def output(folder: Path, pair: int, side: str) -> Path:
    return folder / f"{pair:04d}-{side}.json"
