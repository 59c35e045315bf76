# SPDX-License-Identifier: Apache-2.0
"""Families in Python: functions of the values of a point. Axes, names and plans are the program's (lib/cases)."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from roofbench import _core

Value = str | int | float

CACHE = "cache"
# What Python gets, by the kind of an axis.
_PARSED: dict[str, Callable[[str], Value]] = {"number": int, "decimal": float, "choice": str}


class UsageError(Exception):
    """A command line, a file or a declaration that cannot be run; the text says what to change."""


class Skip(Exception):  # noqa: N818
    """Raised by a family where a point cannot run here; its text is the reason in the row."""


class Case:
    """The measurement of one point: the arguments of `roofbench.measure`, which is called in the case's own process."""

    def __init__(self, fn: Callable[..., Any], *args: Any, **options: Any) -> None:
        self.fn, self.args, self.options = fn, args, options


class Axis:
    """Values of an axis, of which `default` is left out of names; it may be the name of another axis, whose value this
    one then has. Values that are numbers, or a range such as "256:4096:x2", make an axis of numbers: --axis can give
    it any other."""

    def __init__(self, *values: Value, default: Value | None = None, doc: str = "") -> None:
        self.values = [_spelled(value) for value in values]
        self.default = None if default is None else _spelled(default)
        self.doc = doc


def _spelled(value: Value) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or not re.fullmatch(r"[^\s/,]+", text):
        raise UsageError(f"{value!r} is not a value of an axis: texts without space, / and comma, and numbers are")
    return text


@dataclass(frozen=True)
class Point:
    """A value for each axis of a family."""

    name: str  # the key of the case's history; it leaves out defaults
    values: dict[str, str]  # a default that names another axis is that name
    axes: dict[str, str]  # all of them, with the value of that axis


@dataclass(frozen=True)
class Family:
    grid: _core.FamilyGrid
    build: Callable[..., Case]

    @property
    def name(self) -> str:
        return self.grid.name

    @cached_property
    def kinds(self) -> dict[str, str]:
        return self.grid.kinds

    def __call__(self, **values: Any) -> Case:
        return self.build(**values)

    def points(self) -> list[Point]:
        """The registered ones: the product of the values, the last axis fastest."""
        return [Point(*point) for point in self.grid.points()]

    def point_at(self, values: dict[str, str]) -> Point:
        return Point(*self.grid.at(values))

    def values_of(self, point: Point) -> dict[str, Value]:
        """int, float or str by the kind of the axis."""
        return {axis: _PARSED[self.kinds[axis]](text) for axis, text in point.axes.items()}

    def case_at(self, point: Point) -> Case:
        """Calls the family's function with the point's values."""
        values = self.values_of(point)
        if CACHE not in inspect.signature(self.build).parameters:
            values.pop(CACHE)
        case = self.build(**values)
        if not isinstance(case, Case):
            raise TypeError(f"family {self.name} returned {type(case).__name__}; return roofbench.Case(fn, *args, …)")
        cache = point.axes[CACHE]
        if case.options.setdefault(CACHE, cache) != cache:
            raise TypeError(f"family {self.name}: the axis cache says {cache}, so leave cache= out of its Case")
        return case

    def describe(self) -> dict[str, Any]:
        """As the program's contract has it."""
        described: dict[str, Any] = json.loads(self.grid.describe())
        return described


# In the order of their declaration.
_FAMILIES: dict[str, Family] = {}


def families() -> list[Family]:
    return list(_FAMILIES.values())


def family(
    *, growth: Mapping[str, float] | None = None, **axes: Axis | Value | Sequence[Value]
) -> Callable[[Callable[..., Case]], Family]:
    """Declares the function below it as a family: its name, the first line of its text, and its axes. It is called
    with the values of one point, in a process of its own, and returns the Case to measure there.

    `growth`: the time grows as axis ** exponent, which `roofreport scaling` compares with."""

    def declare(build: Callable[..., Case]) -> Family:
        name = build.__name__
        doc = (inspect.getdoc(build) or "").partition("\n")[0]
        try:
            joined = {axis: _axis(value) for axis, value in ({CACHE: "cold"} | axes).items()}
            given = [(axis, one.values, one.default, one.doc) for axis, one in joined.items()]
            declared = Family(_core.FamilyGrid(name, doc, given, list((growth or {}).items())), build)
            _check(declared)
        except (UsageError, ValueError) as error:
            raise UsageError(f"family {name}: {error}") from None
        _FAMILIES[name] = declared
        return declared

    return declare


def _axis(value: Axis | Value | Sequence[Value]) -> Axis:
    if isinstance(value, Axis):
        return value
    return Axis(value) if isinstance(value, (str, int, float)) else Axis(*value)


def _check(declared: Family) -> None:
    parameters = inspect.signature(declared.build).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if missing := [name for name in declared.kinds if not takes_any and name not in (*parameters, CACHE)]:
        raise UsageError(f"its function has no parameter {missing[0]}, which is an axis")
    before = _FAMILIES.get(declared.name)
    here, there = (one and inspect.unwrap(one.build).__code__ for one in (declared, before))
    # Another line of the same file; a reloaded file and a cell that runs again replace what they declared.
    if here and there and here.co_filename == there.co_filename and here.co_firstlineno != there.co_firstlineno:
        raise UsageError(f"it is declared twice, in lines {there.co_firstlineno} and {here.co_firstlineno}")


@dataclass(frozen=True)
class Planned:
    family: Family
    point: Point


def plan(known: Sequence[Family], overrides: Sequence[str], expression: str) -> list[Planned]:
    """The cases that --axis=… and --filter=… select, in order."""
    try:
        found = _core.plan([one.grid for one in known], list(overrides), expression)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return [Planned(known[index], Point(*point)) for index, point in found]


def listed(known: Sequence[Family], overrides: Sequence[str], expression: str, as_json: bool) -> str:
    """The names of those cases, one per line, or as JSON with their axes."""
    try:
        return _core.list_cases([one.grid for one in known], list(overrides), expression, as_json=as_json)
    except ValueError as error:
        raise UsageError(str(error)) from None
