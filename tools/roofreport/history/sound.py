# SPDX-License-Identifier: Apache-2.0
"""Values of a database that anybody may have written: SQLite's columns take every type."""

from __future__ import annotations

from typing import TypeVar

_Kind = TypeVar("_Kind")


def sound(value: object, kind: type[_Kind]) -> _Kind:
    """Raises TypeError for what is of another type."""
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} where {kind.__name__} has to be")
    return value
