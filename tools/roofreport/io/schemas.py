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

from roofreport.io.fast_schema import Check, Compiler
from roofreport.text import printable

FOLDER = Path(__file__).parent / "schema"

# Enough to choose the clearest of.
_MOST_ERRORS = 20
_LONGEST_MESSAGE = 160
_KEYWORDS = Draft202012Validator.VALIDATORS


def _only_where_it_fails(compiler: Compiler) -> Any:
    """As "items", but for the items that do not fit alone: jsonschema takes milliseconds for each."""
    checks: dict[int, Check] = {}

    def items(validator: Any, schema: Any, instance: Any, parent: Any) -> Iterator[ValidationError]:
        if not isinstance(instance, list):
            return
        if id(schema) not in checks:
            checks[id(schema)] = compiler.check(schema)
        check, found = checks[id(schema)], 0
        for index, item in enumerate(instance):
            if not check(item):
                for error in validator.descend(item, schema, path=index):
                    yield error
                    found += 1
            if found >= _MOST_ERRORS:
                return

    return items


def _unless_too_many(keyword: str) -> Any:
    """As the keyword, but where "maxProperties" is broken already, which is reason enough."""

    def holds(validator: Any, argument: Any, instance: Any, parent: Any) -> Iterator[ValidationError]:
        if isinstance(instance, dict) and len(instance) <= parent.get("maxProperties", len(instance)):
            yield from _KEYWORDS[keyword](validator, argument, instance, parent) or ()

    return holds


def load_schema(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


@cache
def _judges(name: str, definition: str) -> tuple[Check, Validator]:
    """What says whether a value fits the schema file `name`, or one of its definitions, and what says why not."""
    schema = load_schema(name)
    if definition:
        schema = {"$ref": f"#/$defs/{definition}", "$defs": schema["$defs"]}
    compiler = Compiler(schema)
    keywords = {keyword: _unless_too_many(keyword) for keyword in ("additionalProperties", "propertyNames")}
    keywords["items"] = _only_where_it_fails(compiler)
    kind: type[Validator] = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    return compiler.check(schema), kind(schema)


def violation(value: Any, name: str, definition: str = "") -> str | None:
    """What is wrong with `value`, in one line; None if it fits."""
    fits, validator = _judges(name, definition)
    if fits(value):
        return None
    error = best_match(validator.iter_errors(value))
    if error is None:
        return None
    place = error.json_path.removeprefix("$").removeprefix(".")
    # It begins with the value, and ends with what is wrong with it.
    message = error.message
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[: _LONGEST_MESSAGE // 2]} … {message[-_LONGEST_MESSAGE // 2 :]}"
    return printable(f"{place}: {message}" if place else message, 300)
