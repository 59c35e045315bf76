# SPDX-License-Identifier: Apache-2.0
"""Families in Python: axes, points and names by the rules of the program (lib/suite/point.cc and plan.cc)."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

Value = str | int | float
Point = dict[str, str]  # axis -> value, in the order of the family's axes

IMPL, CACHE = "impl", "cache"
# Fields of a result's row that are not axes: tools/roofreport/io/schema/google_benchmark.json.
_OF_ROWS = (
    *("name", "run_name", "run_type", "aggregate_name", "aggregate_unit", "family_index", "per_family_instance_index"),
    *("repetitions", "repetition_index", "threads", "iterations", "real_time", "cpu_time", "time_unit", "label"),
    *("error_occurred", "error_message", "skipped", "skip_message"),
)
_AXIS_NAME = re.compile(r"[A-Za-z]\w*")
_RANGE = re.compile(r"(\d+):(\d+):([x+])(\d+)")
# Kinds of axes: the form of a value, of which each number has one, because it occurs in names; what Python gets; and
# what messages expect.
_KINDS: dict[str, tuple[re.Pattern[str], Callable[[str], Value], str]] = {
    "number": (re.compile(r"[1-9]\d*"), int, "a whole number from 1"),
    "decimal": (re.compile(r"(0|[1-9]\d*)(\.\d*[1-9])?"), float, "a number from 0 in its shortest form: 6, 2.5"),
    "choice": (re.compile(".*"), str, ""),
}
_LARGEST = 1 << 40
_MOST_VALUES = 1000
_MOST_POINTS = 200_000
_LONGEST_NAME = 300


class UsageError(Exception):
    """A command line, a file or a declaration that cannot be run; the text says what to change."""


class Skip(Exception):  # noqa: N818
    """Raised by a family where a point cannot run here; its text is the reason in the row."""


class Case:
    """The measurement of one point: the arguments of `roofbench.measure`, which is called in the case's own process."""

    def __init__(self, fn: Callable[..., Any], *args: Any, **options: Any) -> None:
        self.fn, self.args, self.options = fn, args, options


def expanded(text: str) -> list[str]:
    """'256:4096:x2' is 256, 512, …, 4096; '100:300:+100' is 100, 200, 300; any other text is itself."""
    if ":" not in text:
        return [text]
    found = _RANGE.fullmatch(text)
    first, last, by = (int(found[i]) for i in (1, 2, 4)) if found else (0, 0, 0)
    if found is None or first < 1 or last < first or by < (2 if found[3] == "x" else 1):
        raise UsageError(f"'{text}' is not a range; expected FIRST:LAST:xFACTOR or FIRST:LAST:+STEP, as 256:4096:x2")
    values = []
    while first <= last:
        values.append(str(first))
        if len(values) > _MOST_VALUES:
            raise UsageError(f"'{text}' has more than {_MOST_VALUES} values")
        first = first * by if found[3] == "x" else first + by
    return values


class Axis:
    """Values of an axis, of which `default` is left out of names; it may be the name of another axis, whose value this
    one then has. Values that are numbers, or a range such as "256:4096:x2", make an axis of numbers: --axis can give
    it any other."""

    def __init__(self, *values: Value, default: Value | None = None, doc: str = "") -> None:
        self.registered = list(dict.fromkeys(text for value in values for text in expanded(_spelled(value))))
        self.default = None if default is None else _spelled(default)
        self.doc = doc
        if not values:
            raise UsageError("an axis needs at least one value")

    def join(self, axes: Mapping[str, Axis], allowed: Sequence[str] = ()) -> None:
        """Takes its place among the axes of a family, whose names its values may be."""
        follows = self.default if self.default in axes else None
        given = [text for text in (*self.registered, self.default) if text not in (None, follows)]
        self.kind = next(
            kind for kind, (form, *_) in _KINDS.items() if all(form.fullmatch(str(text)) for text in given)
        )
        self.values = list(allowed or self.registered)
        for text in given:
            if not self.has(text, axes):
                raise UsageError(f"'{text}' is not among the values {', '.join(self.values)}")

    def has(self, value: str, axes: Mapping[str, Axis]) -> bool:
        if self.kind == "choice":
            return value in self.values
        if value == self.default and value in axes:
            return True
        return bool(_KINDS[self.kind][0].fullmatch(value)) and float(value) <= _LARGEST

    @property
    def expected(self) -> str:
        return _KINDS[self.kind][2] or ", ".join(self.values)


def _spelled(value: Value) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or not re.fullmatch(r"[^\s/,]+", text):
        raise UsageError(f"{value!r} is not a value of an axis: texts without space, / and comma, and numbers are")
    return text


@dataclass(frozen=True)
class Family:
    name: str
    doc: str
    axes: dict[str, Axis]
    build: Callable[..., Case]
    growth: dict[str, float]

    def __call__(self, **values: Any) -> Case:
        return self.build(**values)

    def points(self) -> list[Point]:
        """The registered ones: the product of the values, the last axis fastest."""
        lists = (axis.registered for axis in self.axes.values())
        return [dict(zip(self.axes, values, strict=True)) for values in product(*lists)]

    def text(self, point: Point, axis: str) -> str:
        """The value after following a default that names another axis."""
        value = point[axis]
        return self.text(point, value) if value != axis and value in self.axes else value

    def name_of(self, point: Point, defaults: bool = False) -> str:
        """The key of the case's history; it leaves out defaults."""
        shown = (f"{axis}:{text}" for axis, text in point.items() if defaults or text != self.axes[axis].default)
        return "/".join([self.name, *shown])

    def texts_of(self, point: Point) -> dict[str, str]:
        """All axes, defaults included."""
        return {axis: self.text(point, axis) for axis in self.axes}

    def values_of(self, point: Point) -> dict[str, Value]:
        return {axis: _KINDS[self.axes[axis].kind][1](text) for axis, text in self.texts_of(point).items()}

    def case_at(self, point: Point) -> Case:
        """Calls the family's function with the point's values: int, float or str by the kind of the axis."""
        values = self.values_of(point)
        if CACHE not in inspect.signature(self.build).parameters:
            values.pop(CACHE)
        case = self.build(**values)
        if not isinstance(case, Case):
            raise TypeError(f"family {self.name} returned {type(case).__name__}; return roofbench.Case(fn, *args, …)")
        if case.options.setdefault(CACHE, point[CACHE]) != point[CACHE]:
            raise TypeError(f"family {self.name}: the axis cache says {point[CACHE]}, so leave cache= out of its Case")
        return case

    def describe(self) -> dict[str, Any]:
        """As the program's contract has it."""
        return {
            "name": self.name,
            "doc": self.doc,
            "cache_default": self.axes[CACHE].default,
            "axes": [
                {
                    "name": name,
                    "doc": axis.doc,
                    "kind": axis.kind,
                    "values": axis.values,
                    "default": axis.default,
                    "role": IMPL if name == IMPL else "size" if axis.kind == "number" else "",
                }
                for name, axis in self.axes.items()
            ],
            "implementations": [
                {"name": name, "doc": "", "devices": [], "dtypes": [], "limits": "", "proof": {}}
                for name in (self.axes[IMPL].values if IMPL in self.axes else [])
            ],
            "growth": [{"axis": axis, "exponent": exponent} for axis, exponent in self.growth.items()],
        }


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
            declared = Family(name, doc, _joined(build, axes), build, dict(growth or {}))
            _check(declared)
        except UsageError as error:
            raise UsageError(f"family {name}: {error}") from None
        _FAMILIES[name] = declared
        return declared

    return declare


def _joined(build: Callable[..., Case], given: Mapping[str, Axis | Value | Sequence[Value]]) -> dict[str, Axis]:
    """`impl` first and `cache`, which every family has, last."""

    def axis(value: Axis | Value | Sequence[Value]) -> Axis:
        if isinstance(value, Axis):
            return value
        return Axis(value) if isinstance(value, (str, int, float)) else Axis(*value)

    given = {CACHE: "cold", **given}
    joined = {name: axis(given[name]) for name in sorted(given, key=lambda name: (name == CACHE, name != IMPL))}
    joined[CACHE].default = joined[CACHE].default or "cold"
    for name, one in joined.items():
        if not _AXIS_NAME.fullmatch(name) or name in _OF_ROWS:
            raise UsageError(f"an axis cannot be called {name}: a row of a result has that field")
        one.join(joined, ("cold", "warm") if name == CACHE else ())
    parameters = inspect.signature(build).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if missing := [name for name in joined if not takes_any and name not in (*parameters, CACHE)]:
        raise UsageError(f"its function has no parameter {missing[0]}, which is an axis")
    return joined


def _check(declared: Family) -> None:
    before = _FAMILIES.get(declared.name)
    here, there = (one and inspect.unwrap(one.build).__code__ for one in (declared, before))
    # Another line of the same file; a reloaded file and a cell that runs again replace what they declared.
    if here and there and here.co_filename == there.co_filename and here.co_firstlineno != there.co_firstlineno:
        raise UsageError(f"it is declared twice, in lines {there.co_firstlineno} and {here.co_firstlineno}")
    if unknown := set(declared.growth) - set(declared.axes):
        raise UsageError(f"growth: there is no axis {min(unknown)}")


@dataclass(frozen=True)
class Override:
    """One --axis=[family.]name=v1,v2,…"""

    family: str
    axis: str
    values: list[str]

    @staticmethod
    def parse(text: str) -> Override:
        left, _, right = text.partition("=")
        owner, dot, axis = left.rpartition(".")
        values = [value for piece in right.split(",") if piece for value in expanded(piece)]
        if not axis or not values or (dot and not owner):
            raise UsageError(f"--axis={text}: expected [family.]name=v1,v2,…; --list shows the names")
        return Override(owner, axis, values)

    def concerns(self, one: Family) -> bool:
        return self.family in ("", one.name) and self.axis in one.axes

    def check(self, known: Sequence[Family]) -> None:
        named = [one for one in known if self.family in ("", one.name)]
        if not named:
            names = ", ".join(one.name for one in known)
            raise UsageError(f"--axis: there is no family '{self.family}'; there are {names}")
        if not any(map(self.concerns, named)):
            axes = ", ".join(sorted({axis for one in named for axis in one.axes}))
            raise UsageError(f"--axis: {self.family or 'no family'} has no axis '{self.axis}'; there are {axes}")
        for one in filter(self.concerns, named):
            spec = one.axes[self.axis]
            for value in self.values:
                if not spec.has(value, one.axes):
                    raise UsageError(
                        f"--axis: '{value}' is not a value of axis {self.axis} of {one.name}; expected {spec.expected}"
                    )

    def applied(self, one: Family, points: list[Point]) -> list[Point]:
        """Points that differ in this axis alone become one, which is repeated with each value."""
        if not self.concerns(one) or not points:
            return points
        single = {one.name_of(point, True): point for point in ({**p, self.axis: self.values[0]} for p in points)}
        if len(single) * len(self.values) > _MOST_POINTS:
            raise UsageError(f"--axis: {one.name} would have more than {_MOST_POINTS} points; give fewer values")
        return [{**point, self.axis: value} for point in single.values() for value in self.values]


@dataclass(frozen=True)
class Planned:
    family: Family
    point: Point

    @property
    def name(self) -> str:
        return self.family.name_of(self.point)


def plan(known: Sequence[Family], overrides: Sequence[Override], expression: str) -> list[Planned]:
    """The selected cases in order, each name once. A leading - of the expression takes those that do not match."""
    for override in overrides:
        override.check(known)
    try:
        wanted = re.compile("" if expression == "all" else expression.removeprefix("-"))
    except re.error as error:
        raise UsageError(f"--filter={expression[:200]} is not a valid regular expression: {error}") from None
    found: dict[str, Planned] = {}
    parts: set[str] = set()
    for one in known:
        points = one.points()
        for override in overrides:
            points = override.applied(one, points)
        for planned in (Planned(one, point) for point in points):
            names = [planned.name, one.name_of(planned.point, defaults=True)]
            parts.update(names[1].split("/"))
            # Expressions made for the program may end with Google Benchmark's suffix.
            selected = any(wanted.search(name) or wanted.search(f"{name}/manual_time") for name in names)
            if selected != expression.startswith("-"):
                found.setdefault(planned.name, planned)
    if long := next((name for name in found if len(name) > _LONGEST_NAME), None):
        raise UsageError(f"the name {long[:60]}… has more than {_LONGEST_NAME} characters; shorten the values")
    if not found:
        words = [word.strip(".") for word in re.split(r"[^\w:.]+", expression)]
        close = [(word, near) for word in words for near in difflib.get_close_matches(word, parts, 1)]
        meant = [f"; did you mean '{near}' for '{word}'?" for word, near in close if word not in near]
        raise UsageError(f"--filter={expression} matches no case{meant[0] if meant else ''}; --list shows all")
    return list(found.values())
