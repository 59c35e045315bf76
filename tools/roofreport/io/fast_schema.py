# SPDX-License-Identifier: Apache-2.0
"""A JSON schema as a function that says whether a value fits.

jsonschema explains what is wrong, and takes milliseconds for each case of a result to do it. This says in microseconds
that nothing is. It knows the keywords of our schemas, and is never more lenient than jsonschema, which has the last
word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Check = Callable[[Any], bool]

_MOST_REMEMBERED = 10_000  # names of properties
_ANNOTATIONS = {"$schema", "title", "description", "$defs"}
# What belongs to the keyword that the entry names.
_PARTS = {"then": "if", "additionalProperties": "properties"}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


_TYPES: dict[str, Check] = {
    "object": lambda value: type(value) is dict,
    "array": lambda value: type(value) is list,
    "string": lambda value: type(value) is str,
    "number": _is_number,
    "integer": lambda value: type(value) is int or (type(value) is float and value.is_integer()),
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
}


def _types(names: str | list[str]) -> Check:
    if isinstance(names, str):
        return _TYPES[names]
    checks = [_TYPES[name] for name in names]
    return lambda value: any(check(value) for check in checks)


def _one_of(values: list[Any]) -> Check:
    pairs = [(type(one), one) for one in values]
    return lambda value: any(type(value) is kind and value == one for kind, one in pairs)


# Keywords that judge a value by one argument, and the type that they are about.
_LIMITS: dict[str, tuple[Check, Callable[[Any, Any], bool]]] = {
    "minimum": (_is_number, lambda value, least: value >= least),
    "maximum": (_is_number, lambda value, most: value <= most),
    "minLength": (_TYPES["string"], lambda value, least: len(value) >= least),
    "maxLength": (_TYPES["string"], lambda value, most: len(value) <= most),
    "minItems": (_TYPES["array"], lambda value, least: len(value) >= least),
    "maxItems": (_TYPES["array"], lambda value, most: len(value) <= most),
    "maxProperties": (_TYPES["object"], lambda value, most: len(value) <= most),
    "required": (_TYPES["object"], lambda value, names: all(name in value for name in names)),
}


def _limit(keyword: str, argument: Any) -> Check:
    concerned, holds = _LIMITS[keyword]
    return lambda value: not concerned(value) or holds(value, argument)


def _pattern(text: str) -> Check:
    search = re.compile(text).search
    return lambda value: type(value) is not str or search(value) is not None


def _all(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def holds(value: Any) -> bool:
        for check in checks:  # noqa: SIM110 (a generator takes twice as long)
            if not check(value):
                return False
        return True

    return holds


class Compiler:
    """Of the schemas within one document, whose $defs they refer to."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[str, Check] = {}

    def check(self, schema: Any) -> Check:
        """Raises KeyError for a keyword that is not known here."""
        if isinstance(schema, bool):
            return lambda value: schema
        checks = [self._keyword(keyword, schema) for keyword in schema if keyword not in _ANNOTATIONS]
        return _all([check for check in checks if check is not None])

    def _keyword(self, keyword: str, schema: dict[str, Any]) -> Check | None:
        argument = schema[keyword]
        if keyword in _LIMITS:
            return _limit(keyword, argument)
        if keyword in _PARTS and _PARTS[keyword] in schema:
            return None
        if keyword in ("properties", "additionalProperties"):
            return self._properties(schema.get("properties", {}), schema.get("additionalProperties", True))
        makers: dict[str, Callable[[Any], Check]] = {
            "type": _types,
            "enum": _one_of,
            "const": lambda one: _one_of([one]),
            "pattern": _pattern,
            "$ref": self._reference,
            "items": self._items,
            "propertyNames": self._names,
            "if": lambda condition: self._condition(condition, schema.get("then", True)),
        }
        return makers[keyword](argument)

    def _reference(self, name: str) -> Check:
        if name not in self._known:
            self._known[name] = self.check(self._root["$defs"][name.removeprefix("#/$defs/")])
        return self._known[name]

    def _items(self, schema: Any) -> Check:
        if schema == {"type": "number", "minimum": 0}:  # a hundred thousand samples
            return lambda value: type(value) is not list or all(type(x) in (int, float) and x >= 0 for x in value)
        check = self.check(schema)
        return lambda value: type(value) is not list or all(map(check, value))

    def _names(self, schema: Any) -> Check:
        check = self.check(schema)
        passed: set[str] = set()  # rows have the same names

        def holds(value: Any) -> bool:
            if type(value) is not dict or value.keys() <= passed:
                return True
            if not all(map(check, value)):
                return False
            if len(passed) < _MOST_REMEMBERED:
                passed.update(value)
            return True

        return holds

    def _properties(self, properties: dict[str, Any], others: Any) -> Check:
        checks = {name: self.check(schema) for name, schema in properties.items()}
        other = self.check(others)

        def holds(value: Any) -> bool:
            if type(value) is dict:
                for name, item in value.items():
                    if not checks.get(name, other)(item):
                        return False
            return True

        return holds

    def _condition(self, condition: Any, then: Any) -> Check:
        applies, holds = self.check(condition), self.check(then)
        return lambda value: not applies(value) or holds(value)
