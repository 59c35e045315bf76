# SPDX-License-Identifier: Apache-2.0
"""What an A B B A comparison has done so far, on disk, so that it can be resumed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from roofreport import files
from roofreport.errors import UnusableInputError
from roofreport.io import strict_json
from roofreport.io.source import read_text
from roofreport.stats.verdict import Verdict

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
        files.write_text(folder / _FILE, json.dumps(asdict(state), indent=1))
    except OSError as error:
        raise UnusableInputError(f"cannot write the state to {folder}: {files.reason(error)}") from error


def _is_whole(state: State) -> bool:
    numbers, verdicts = (int, float), {verdict.value for verdict in Verdict}
    return (
        isinstance(state.max_time, numbers)
        and isinstance(state.seconds, numbers)
        and isinstance(state.cases, list)
        and isinstance(state.pairs, list)
        and isinstance(state.closed, dict)
        and all(
            isinstance(pair, dict)
            and isinstance(pair.get("seconds"), numbers)
            and isinstance(pair.get("cases"), list)
            and all(name in state.cases for name in pair["cases"])
            for pair in state.pairs
        )
        and all(isinstance(end, list) and len(end) == 2 and end[0] in verdicts for end in state.closed.values())
    )


def restore(folder: Path, key: str) -> State | None:
    """None if nothing was begun. Raises UnusableInputError for the state of another comparison."""
    path = folder / _FILE
    if not path.exists():
        return None
    try:
        state = State(**strict_json.parse(read_text(path)))
        if state.version != _VERSION or not _is_whole(state):
            raise ValueError(
                f"version {state.version}" if state.version != _VERSION else "its fields are of other kinds"
            )
    except (ValueError, TypeError) as error:
        raise UnusableInputError(f"{path} is damaged ({error}); remove the folder to start anew") from error
    if state.key != key:
        raise UnusableInputError(
            f"{folder} holds another comparison (other programs, flags, cases or budget);"
            " name another --state, or remove the folder"
        )
    return state


def output(folder: Path, pair: int, side: str) -> Path:
    return folder / f"{pair:04d}-{side}.json"
