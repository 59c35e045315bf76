# SPDX-License-Identifier: Apache-2.0
"""The configuration file of a nightly run. Every setting has a default; unknown ones are refused by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofreport.errors import UnusableInputError
from roofreport.project_folder import root
from roofreport.text import printable
from roofreport.verbs.common import STORE_VARIABLE

from nightly_runs.message import FORMATS, SCHEMES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WEBHOOK_VARIABLE = "ROOFBENCH_WEBHOOK"
_LARGEST_NUMBER = 10_000
_LARGEST_FILE = 1 << 14  # parsing a key of many parts takes the square of their number
_MAY_BE_EMPTY = ("suite.flags", "gate.binary", "message.url", "message.site")
_MEANING = {int: f"a number from 1 to {_LARGEST_NUMBER}", list: 'a list of texts, as ["a", "b"]', str: "a text"}
EXAMPLE = Path(__file__).with_name("example.toml").read_text(encoding="utf-8")  # every setting with its default


@dataclass(frozen=True)
class Config:
    """A field for each setting; a section's name is the first word. Commands run in the project's folder."""

    store: str  # a file or a URL
    nights: Path  # contains one folder for each nightly run
    site: Path
    keep_nights: int
    build_command: list[str]
    suite_command: list[str]
    suite_flags: list[str]
    suite_processes: int
    suite_attempts: int
    gate_command: list[str]
    gate_binary: str
    pages_command: list[str]
    message_url: str  # empty: no message is sent
    message_format: str
    message_site: str  # empty: messages have no links
    message_when: str


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Sections as dotted names."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        found |= {f"{key}.{inner}": one for inner, one in value.items()} if isinstance(value, dict) else {key: value}
    return found


def _fits(default: object, value: object) -> bool:
    if isinstance(default, int):
        return type(value) is int and 1 <= value <= _LARGEST_NUMBER
    texts = value if isinstance(default, list) and isinstance(value, list) else [value]
    return isinstance(value, type(default)) and all(isinstance(text, str) and "\0" not in text for text in texts)


_CHOICES = {"message.format": tuple(FORMATS), "message.when": ("alarm", "always")}


def _checked(file: str, document: Mapping[str, Any]) -> dict[str, Any]:
    values = _flat(tomllib.loads(EXAMPLE))
    for name, value in _flat(document).items():
        if name not in values:
            raise UnusableInputError(f"{file}: {printable(name, 80)} is not a setting; there are {', '.join(values)}")
        if not _fits(values[name], value):
            raise UnusableInputError(f"{file}: {name} must be {_MEANING[type(values[name])]}")
        if not value and name not in _MAY_BE_EMPTY:
            raise UnusableInputError(f"{file}: {name} is empty")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise UnusableInputError(f"{file}: {name} must be {' or '.join(_CHOICES[name])}")
        values[name] = value
    return values


def read(path: Path) -> Config:
    """Relative paths are relative to the file's folder. Raises UnusableInputError."""
    name = printable(str(path))
    try:
        if path.exists() and not path.is_file():
            raise UnusableInputError(f"{name}: is not a file")
        with path.open("rb") as file:
            text = file.read(_LARGEST_FILE + 1)
        if len(text) > _LARGEST_FILE:
            raise UnusableInputError(f"{name}: has more than {_LARGEST_FILE >> 10} KiB, and a configuration has a few")
        document = tomllib.loads(text.decode())
    except OSError as error:
        raise UnusableInputError(f"{name}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UnusableInputError(f"{name}: invalid TOML: {printable(str(error), 200)}") from error
    values = _checked(name, document)
    folder = path.resolve().parent
    store = os.environ.get(STORE_VARIABLE) or values["store"]
    url = os.environ.get(WEBHOOK_VARIABLE) or values["message.url"]
    for setting, address in ((f"message.url, or {WEBHOOK_VARIABLE},", url), ("message.site", values["message.site"])):
        if address and address.partition("://")[0] not in SCHEMES:
            raise UnusableInputError(f"{name}: {setting} must begin with http:// or https://")
    paths = {
        "store": store if "://" in store else str(folder / store),
        "nights": folder / values["nights"],
        "site": folder / values["site"],
        "message.url": url,
        "gate.binary": str(root() / values["gate.binary"]) if values["gate.binary"] else "",
    }
    return Config(**{name.replace(".", "_"): value for name, value in {**values, **paths}.items()})
