# SPDX-License-Identifier: Apache-2.0
"""The configuration file of a nightly run. Every setting has a default; unknown ones are refused by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofreport.errors import UnusableInputError
from roofreport.history.where import VARIABLE
from roofreport.place import root
from roofreport.text import printable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LARGEST_NUMBER = 10_000
_DEFAULTS: dict[str, str | int | list[str]] = {
    "store": "history.db",
    "nights": "nights",
    "site": "site",
    "keep_nights": 30,
    "build.command": ["tools/setup", "--yes"],
    "suite.command": ["tools/bench"],
    "suite.flags": ["--suite=quick"],
    "suite.processes": 3,
    "suite.attempts": 3,
    "gate.command": ["tools/report", "gate"],
    "gate.binary": "build/release/bin/roofbench",
    "pages.command": ["tools/report", "site"],
}
_MEANING = {int: f"a number from 1 to {_LARGEST_NUMBER}", list: 'a list of texts, as ["a", "b"]', str: "a text"}


@dataclass(frozen=True)
class Config:
    """Commands run in the project's folder."""

    store: str  # a file or a URL
    nights: Path  # contains one folder for each nightly run
    site: Path
    keep_nights: int  # older folders are deleted once the history contains their results
    build: tuple[str, ...]
    suite: tuple[str, ...]
    flags: tuple[str, ...]  # of the suite
    processes: int  # suite processes in a nightly run: their differences are noise
    attempts: int  # of each process; each continues where the previous one ended
    gate: tuple[str, ...]
    binary: str  # which the gate runs again; empty for none
    pages: tuple[str, ...]  # writes the site


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Sections as dotted names."""
    for key, value in document.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", one) for inner, one in value.items())
        else:
            yield key, value


def _fits(name: str, value: object) -> bool:
    kind = type(_DEFAULTS[name])
    if kind is int:
        return type(value) is int and 1 <= value <= _LARGEST_NUMBER
    if kind is list:
        return isinstance(value, list) and all(isinstance(part, str) and "\0" not in part for part in value)
    return isinstance(value, str) and "\0" not in value


def _checked(file: str, document: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(_DEFAULTS)
    for name, value in _flat(document):
        if name not in _DEFAULTS:
            raise UnusableInputError(
                f"{file}: {printable(name, 80)} is not a setting; there are {', '.join(_DEFAULTS)}"
            )
        if not _fits(name, value):
            raise UnusableInputError(f"{file}: {name} must be {_MEANING[type(_DEFAULTS[name])]}")
        if name.endswith(".command") and not value:
            raise UnusableInputError(f"{file}: {name} is empty")
        values[name] = value
    return values


def read(path: Path) -> Config:
    """Relative paths are relative to the file's folder. Raises UnusableInputError."""
    name = printable(str(path))
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnusableInputError(f"{name}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UnusableInputError(f"{name}: invalid TOML: {printable(str(error), 200)}") from error
    values = _checked(name, document)
    folder = path.resolve().parent
    store = os.environ.get(VARIABLE) or values["store"]
    return Config(
        store=store if "://" in store else str(folder / store),
        nights=folder / values["nights"],
        site=folder / values["site"],
        keep_nights=values["keep_nights"],
        build=tuple(values["build.command"]),
        suite=tuple(values["suite.command"]),
        flags=tuple(values["suite.flags"]),
        processes=values["suite.processes"],
        attempts=values["suite.attempts"],
        gate=tuple(values["gate.command"]),
        binary=str(root() / values["gate.binary"]) if values["gate.binary"] else "",
        pages=tuple(values["pages.command"]),
    )
