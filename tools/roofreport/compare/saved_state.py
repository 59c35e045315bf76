# SPDX-License-Identifier: Apache-2.0
"""The state of a command that can be interrupted: a dataclass as JSON in the command's folder."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from roofreport import files
from roofreport.errors import UnusableInputError
from roofreport.io import source
from roofreport.text import inert

_Kind = TypeVar("_Kind")


def save(path: Path, state: Any) -> None:
    with files.explained(f"cannot write the state to {path.parent}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(path, json.dumps(asdict(state), indent=1))


def restore(path: Path, kind: type[_Kind]) -> _Kind | None:
    """None if there is no such file. Raises UnusableInputError for a file that does not hold a `kind`."""
    if not path.exists():
        return None
    try:
        state: _Kind = _checked(source.parse_json(source.read_text(path)), kind)
    except (ValueError, TypeError) as error:
        raise UnusableInputError(f"{path} is damaged ({error}); remove the folder to start again") from error
    return state


def _checked(value: Any, kind: Any) -> Any:
    """`value` as `kind`, down to the last field. Raises TypeError or ValueError."""
    is_fields: bool = is_dataclass(kind) and isinstance(value, dict)
    if is_fields:
        hints = get_type_hints(kind)
        return kind(**{name: _checked(field, hints.get(name, object)) for name, field in value.items()})
    if kind is float and isinstance(value, int):
        return float(value)
    container = get_origin(kind) or kind
    if not isinstance(value, container):
        raise TypeError(f"{type(value).__name__} where {container.__name__} has to be")
    if container is list:
        return [_checked(item, get_args(kind)[0]) for item in value]
    if container is dict:
        return {name: _checked(item, get_args(kind)[1]) for name, item in value.items()}
    return inert(value) if isinstance(value, str) else value
