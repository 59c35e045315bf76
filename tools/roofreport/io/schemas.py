# SPDX-License-Identifier: Apache-2.0
"""The JSON schemas of both result formats, and the first way in which a value breaks one."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema

from roofreport.text import shortened

_FOLDER = Path(__file__).parent / "schema"
_LONGEST_VALUE = 60


@cache
def load_schema(name: str) -> Any:
    return json.loads((_FOLDER / f"{name}.json").read_text())


@cache
def _check(name: str, definition: str) -> Callable[[Any], Any]:
    """Checks a value against the schema file `name`, or one of its definitions."""
    schema = load_schema(name)
    if definition:
        schema = {"$ref": f"#/$defs/{definition}", "$defs": schema["$defs"]}
    check: Callable[[Any], Any] = fastjsonschema.compile(schema, use_default=False)
    return check


def violation(value: Any, name: str, definition: str = "") -> str | None:
    """One line that describes the error in `value`; None if it fits."""
    try:
        _check(name, definition)(value)
    except fastjsonschema.JsonSchemaValueException as error:
        place = str(error.name).removeprefix("data").removeprefix(".")
        wrong = error.message.removeprefix(str(error.name)).strip()
        given = "" if isinstance(error.value, (dict, list)) else f": {str(error.value)[:_LONGEST_VALUE]!r}"
        return shortened(f"{place} {wrong}{given}".strip(), 300)
    return None
