# SPDX-License-Identifier: Apache-2.0
"""Reads untrusted files: regular files of a bounded size, as UTF-8, and JSON of the standard without surprises."""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from roofreport.errors import UnusableInputError
from roofreport.text import inert

MEBIBYTE = 1 << 20
LARGEST_FILE = 256 * MEBIBYTE
LONGEST_LINE = 32 * MEBIBYTE

_TRACE = ".trace.json"  # --profile writes one next to each profile

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def refuse(path: Path, why: str) -> UnusableInputError:
    return UnusableInputError(f"{path}: {why}")


class Entry:
    """An object of a file, with the expected type of every member. `what`: the file, as "a profile"."""

    def __init__(self, value: Any, path: Path, what: str) -> None:
        self._path, self._what = path, what
        if not isinstance(value, dict):
            raise self.refusal("an entry is not a dict")
        self._value = value

    def refusal(self, why: str) -> UnusableInputError:
        return refuse(self._path, f"is not {self._what}: {why}")

    def _member(self, key: str, kind: type[Any] | tuple[type[Any], ...], name: str, default: Any) -> Any:
        found = self._value.get(key, default)
        if isinstance(found, bool) or not isinstance(found, kind):
            raise self.refusal(f"it has no {name} {key!r}")
        return found

    def text(self, key: str, default: str | None = None) -> str:
        return inert(self._member(key, str, "text", default))

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self._member(key, int, "whole number", default))

    def number(self, key: str) -> float:
        found = float(self._member(key, (int, float), "number", None))
        if found < 0:
            raise self.refusal(f"it has no number {key!r} from 0")
        return found

    def numbers(self, key: str) -> dict[str, float]:
        """The numbers in the object `key`; none if it is missing."""
        found = self._value.get(key)
        known = found if isinstance(found, dict) else {}
        return {inert(str(name)): float(value) for name, value in known.items() if isinstance(value, (int, float))}

    def entry(self, key: str) -> Entry:
        return self._made(self._value.get(key, {}))

    def entries(self, key: str, default: Any = None) -> list[Entry]:
        return [self._made(each) for each in self._member(key, list, "list", default)]

    def lists(self, key: str) -> list[list[Entry]]:
        found = self._member(key, list, "lists", None)
        if not all(isinstance(each, list) for each in found):
            raise self.refusal(f"it has no lists {key!r}")
        return [[self._made(entry) for entry in each] for each in found]

    def _made(self, value: Any) -> Entry:
        return Entry(value, self._path, self._what)


def files_in(path: Path, pattern: str, what: str) -> list[Path]:
    """The files of a folder, sorted; a file itself. `what`: what they are, and the flag that writes them."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.glob(pattern) if not each.name.endswith(_TRACE))
    if not found:
        raise refuse(path, f"holds no {what}=FOLDER writes them")
    return found


def _has_long_line(data: bytes) -> bool:
    """A line above the limit holds a whole half of it without an end."""
    half = LONGEST_LINE // 2
    for start in range(0, len(data), half):
        if data.find(b"\n", start, start + half) < 0:
            end = data.find(b"\n", start)
            if (end if end >= 0 else len(data)) - data.rfind(b"\n", 0, start) - 1 > LONGEST_LINE:
                return True
    return False


def read_bytes(path: Path) -> bytes:
    """The file's content. Raises UnusableInputError that names the file and the reason."""
    try:
        # Without O_NONBLOCK, opening a pipe without a writer would block forever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise refuse(path, f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}, not a result file")
            if status.st_size > LARGEST_FILE:
                raise refuse(path, f"has {status.st_size / MEBIBYTE:.0f} MiB; no result file is above 256 MiB")
            return file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refuse(path, f"cannot be read: {reason}") from error


def read_text(path: Path) -> str:
    """As read_bytes, of text."""
    data = read_bytes(path)
    if not data.strip():
        raise refuse(path, "is empty")
    if b"\0" in data[:4096]:
        raise refuse(path, "is a binary file, not a result of roofbench")
    if _has_long_line(data):
        raise refuse(path, "has a line above 32 MiB, which no result has")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refuse(path, f"is not UTF-8 text (byte {error.start})") from error


DEEPEST = 32
_LONGEST_INTEGER = 20


class StrictJsonError(ValueError):
    """The reason why a text is refused. `at_end`: it may have been cut off."""

    def __init__(self, message: str, at_end: bool = False) -> None:
        super().__init__(message)
        self.at_end = at_end


def _constant(text: str) -> NoReturn:
    raise StrictJsonError(f"{text} is not a JSON number")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise StrictJsonError(f"the number {text[:30]} is out of range")
    return value


def _int(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise StrictJsonError(f"the number {text[:30]}… is out of range")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise StrictJsonError(f"the key {twice[:60]!r} is given twice in one object; remove one")
    return entries


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise StrictJsonError(f"nested deeper than {DEEPEST} levels")


def parse_json(text: str) -> Any:
    """The value of one JSON document. Raises StrictJsonError."""
    try:
        value = json.loads(
            text, parse_constant=_constant, parse_float=_float, parse_int=_int, object_pairs_hook=_object
        )
    except RecursionError as error:
        raise StrictJsonError(f"nested deeper than {DEEPEST} levels") from error
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        place = f"line {error.lineno}, column {error.colno}"
        if error.msg.startswith("Invalid control character"):
            code = ord(text[error.pos])
            raise StrictJsonError(f"the control character \\u{code:04x} is not escaped at {place}") from error
        raise StrictJsonError(f"{error.msg} at {place}", at_end) from error
    if isinstance(value, (dict, list)):
        _check_depth(value)
    return value
