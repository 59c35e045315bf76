# SPDX-License-Identifier: Apache-2.0
"""JSON as the standard has it: finite numbers of a sane size, no key twice, no deep nesting."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

DEEPEST = 32
_LONGEST_INTEGER = 20


class StrictJsonError(ValueError):
    """Why a text is refused. `at_end`: it may have been cut off."""

    def __init__(self, message: str, at_end: bool = False) -> None:
        super().__init__(message)
        self.at_end = at_end


def _constant(text: str) -> NoReturn:
    raise StrictJsonError(f"{text} is no JSON number")


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
        raise StrictJsonError(
            f"the key {twice[:60]!r} is given twice in one object, and nobody knows which value counts; take one out"
        )
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


def parse(text: str) -> Any:
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
            raise StrictJsonError(
                f"the control character \\u{code:04x} stands as it is in a text at {place}; JSON wants it spelt so"
            ) from error
        raise StrictJsonError(f"{error.msg} at {place}", at_end) from error
    if isinstance(value, (dict, list)):
        _check_depth(value)
    return value
