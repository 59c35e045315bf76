# SPDX-License-Identifier: Apache-2.0
"""The file that says what a night does. Every key has a default; one that is not known is refused by its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
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


@dataclass(frozen=True)
class Config:
    store: str  # a file or a URL
    nights: Path  # a folder a night lies in it
    site: Path
    keep_nights: int  # older folders go once their run is in the history
    build: tuple[str, ...]  # commands; they run in the project's folder
    suite: tuple[str, ...]
    flags: tuple[str, ...]  # of the suite
    processes: int  # of the suite a night: what they have in common is the night's, what they differ in is noise
    attempts: int  # of each to come to the end of the suite; each goes on where the one before ended
    gate: tuple[str, ...]
    binary: str  # what the gate runs again; empty: nothing
    pages: tuple[str, ...]  # the command that writes the site


# Section, key, what it is, and its default.
_KEYS: tuple[tuple[str, str, type, Any], ...] = (
    ("", "store", str, "history.db"),
    ("", "nights", str, "nights"),
    ("", "site", str, "site"),
    ("", "keep_nights", int, 30),
    ("build", "command", list, ["tools/setup", "--yes"]),
    ("suite", "command", list, ["tools/bench"]),
    ("suite", "flags", list, ["--suite=quick"]),
    ("suite", "processes", int, 3),
    ("suite", "attempts", int, 3),
    ("gate", "command", list, ["tools/report", "gate"]),
    ("gate", "binary", str, "build/release/bin/roofbench"),
    ("pages", "command", list, ["tools/report", "site"]),
)


def _fits(value: object, kind: type) -> bool:
    if kind is int:
        return type(value) is int and 1 <= value <= _LARGEST_NUMBER
    if kind is list:
        return isinstance(value, list) and all(isinstance(part, str) and "\0" not in part for part in value)
    return isinstance(value, str) and "\0" not in value


_MEANT = {int: f"a number from 1 to {_LARGEST_NUMBER}", list: 'a list of texts, as ["a", "b"]', str: "a text"}


def _checked(name: str, document: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    values: dict[tuple[str, str], Any] = {}
    sections = {section for section, *_ in _KEYS if section}
    for key, value in document.items():
        if key in sections:
            if not isinstance(value, dict):
                raise UnusableInputError(f"{name}: {key} is a section: write [{key}]")
            values |= {(key, inner): one for inner, one in value.items()}
        else:
            values["", key] = value
    known = {(section, key): kind for section, key, kind, _ in _KEYS}
    for place, value in values.items():
        dotted = printable(".".join(filter(None, place)), 80)
        if place not in known:
            choices = ", ".join(".".join(filter(None, one)) for one in known)
            raise UnusableInputError(f"{name}: {dotted} is no setting; there are {choices}")
        if not _fits(value, known[place]):
            raise UnusableInputError(f"{name}: {dotted} has to be {_MEANT[known[place]]}")
    for place in (("build", "command"), ("suite", "command"), ("gate", "command"), ("pages", "command")):
        if values.get(place) == []:
            raise UnusableInputError(f"{name}: {'.'.join(place)} is empty")
    return {(section, key): values.get((section, key), default) for section, key, _, default in _KEYS}


def read(path: Path) -> Config:
    """Places in it are relative to its folder. Raises UnusableInputError."""
    name = printable(str(path))
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnusableInputError(f"{name}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UnusableInputError(f"{name}: is no TOML: {printable(str(error), 200)}") from error
    values = _checked(name, document)
    folder = path.resolve().parent

    def text(section: str, key: str) -> str:
        return str(values[section, key])

    def words(section: str, key: str) -> tuple[str, ...]:
        return tuple(values[section, key])

    store = os.environ.get(VARIABLE) or text("", "store")
    return Config(
        store=store if "://" in store else str(folder / store),
        nights=folder / text("", "nights"),
        site=folder / text("", "site"),
        keep_nights=values["", "keep_nights"],
        build=words("build", "command"),
        suite=words("suite", "command"),
        flags=words("suite", "flags"),
        processes=values["suite", "processes"],
        attempts=values["suite", "attempts"],
        gate=words("gate", "command"),
        binary=str(root() / text("gate", "binary")) if text("gate", "binary") else "",
        pages=words("pages", "command"),
    )
