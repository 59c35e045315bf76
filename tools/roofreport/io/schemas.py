# SPDX-License-Identifier: Apache-2.0
"""The JSON schemas of both result formats, and the first way in which a value breaks one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from roofreport.text import printable

FOLDER = Path(__file__).parent / "schema"

_PLAIN_NUMBERS = {"type": "number", "minimum": 0}
_items = Draft202012Validator.VALIDATORS["items"]


def _fast_items(validator: Any, schema: Any, instance: Any, parent: Any) -> Iterator[ValidationError]:
    """As "items", but journals hold a hundred thousand samples, and the general way takes microseconds for each."""
    if (
        isinstance(instance, list)
        and validator.evolve(schema=schema).schema == _PLAIN_NUMBERS
        and all(type(value) in (int, float) and value >= 0 for value in instance)
    ):
        return
    yield from _items(validator, schema, instance, parent) or ()


def load_schema(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


@cache
def validator(name: str, definition: str = "") -> Validator:
    """Of the schema file `name`, or of one of its definitions."""
    schema = load_schema(name)
    if definition:
        schema = {"$ref": f"#/$defs/{definition}", "$defs": schema["$defs"]}
    kind: type[Validator] = extend(Draft202012Validator, {"items": _fast_items})  # type: ignore[no-untyped-call]
    return kind(schema)


def violation(value: Any, name: str, definition: str = "") -> str | None:
    """What is wrong with `value`, in one line; None if it fits."""
    error = best_match(validator(name, definition).iter_errors(value))
    if error is None:
        return None
    place = error.json_path.removeprefix("$").removeprefix(".")
    return printable(f"{place}: {error.message}" if place else error.message, 300)
