# SPDX-License-Identifier: Apache-2.0
"""The contract: families, axes, implementations and counters, as `roofbench --describe=json` reports them.

Every result brings its own; packaged() is that of the program of this checkout, for results that are older than that.
The other modules take families, and the rows of counters, from here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from roofreport.io import source
from roofreport.io.schemas import violation
from roofreport.io.source import refuse

SCHEMA = "roofbench-contract-1"
PACKAGED = Path(__file__).parents[1] / "contract.json"
# The role of the axis that selects the implementation.
IMPLEMENTATION = "impl"


class Better(Enum):
    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True)
class Metric:
    """The unit of a figure, its better direction, and the least change that matters."""

    name: str  # "<ref>" stands for the prefix of --reference, "<phase>" for the name of a phase
    unit: str
    better: Better
    practical: float  # a smaller relative change does not matter in practice
    noisy: bool = True  # follows the clock; False: the same work gives the same figure
    headline: bool = False  # what a case is run for, beyond its time: in the default columns

    def worse(self, change: float) -> bool:
        """Whether a change in this direction, for a metric that has one, is for the worse."""
        return (change > 0) == (self.better is Better.LOWER)

    @property
    def sign(self) -> float:
        """Turns a logarithm so that it grows as the figure gets worse."""
        return -1.0 if self.better is Better.HIGHER else 1.0


# The primary metric; every other one is a counter. A contract may override it.
TIME = Metric("time", "s", Better.LOWER, 0.01)


@dataclass(frozen=True)
class Axis:
    name: str
    default: str | None = None  # left out of the names of cases
    role: str = ""


@dataclass(frozen=True)
class Family:
    name: str
    axes: tuple[Axis, ...] = ()
    growth: Mapping[str, float] = field(default_factory=dict)  # axis -> exponent of the time

    @cached_property
    def _by_name(self) -> dict[str, Axis]:
        return {axis.name: axis for axis in reversed(self.axes)}

    @cached_property
    def _by_role(self) -> dict[str, Axis]:
        return {axis.role: axis for axis in reversed(self.axes)}

    def axis(self, name: str) -> Axis | None:
        return self._by_name.get(name)

    def with_role(self, role: str) -> Axis | None:
        return self._by_role.get(role)

    @cached_property
    def leading(self) -> Axis | None:
        """The axis that others take their value from by default: the size of a model, which determines its widths."""
        defaults = {axis.default for axis in self.axes}
        return next((axis for axis in self.axes if axis.name in defaults), None)


@dataclass(frozen=True)
class Work:
    """FLOPs by dtype, and bytes by the kind of traffic whose rate they take."""

    flops: Mapping[str, float]
    bytes: Mapping[str, float]


@dataclass(frozen=True)
class ModelStep:
    """A step of a published model: a token after a prompt, that prompt, or a training step."""

    model: str
    step: str
    format: str  # of weights, or of a training step's products
    tokens: float
    memory: float  # bytes alive at its peak
    parts: tuple[Work, ...]  # one after another


@dataclass(frozen=True)
class _Pattern:
    """A name with parts in angle brackets, each of which stands for one character or more. Not a regular expression: an
    untrusted contract could make one run for hours."""

    literals: tuple[str, ...]  # before, between and after those parts

    def matches(self, name: str) -> bool:
        first, *between, last = self.literals
        if not name.startswith(first) or not name.endswith(last):
            return False
        end = len(name) - len(last)
        position = len(first)
        for literal in between:
            found = name.find(literal, position + 1, end)
            if found < 0:
                return False
            position = found + len(literal)
        return position < end


def _pattern(name: str) -> _Pattern:
    return _Pattern(tuple(re.split(r"<\w+>", name)))


@dataclass(frozen=True)
class Contract:
    version: int
    families: Mapping[str, Family]
    counters: tuple[Metric, ...]
    time: Metric = TIME
    models: tuple[ModelStep, ...] = ()  # of the packaged one; a result's own has none

    @cached_property
    def _by_name(self) -> dict[str, Metric]:
        return {metric.name: metric for metric in (self.time, *self.counters)}

    @cached_property
    def _patterns(self) -> list[tuple[_Pattern, Metric]]:
        """From the special to the general: a longer literal part first."""
        rows = [(_pattern(metric.name), metric) for metric in self.counters]
        rows = [row for row in rows if len(row[0].literals) > 1]
        return sorted(rows, key=lambda row: -sum(map(len, row[0].literals)))

    @cached_property
    def _found(self) -> dict[str, Metric | None]:
        """Names that were looked up by pattern: every case of a file has the same counters."""
        return {}

    def metric(self, name: str) -> Metric | None:
        """The row of a counter, or of "time"; None for a counter that the contract does not know."""
        if name in self._by_name:
            return self._by_name[name]
        if name not in self._found:
            matching = (metric for pattern, metric in self._patterns if pattern.matches(name))
            self._found[name] = next(matching, None)
        return self._found[name]

    @cached_property
    def headlines(self) -> list[str]:
        """The names of the counters that cases are run for."""
        return [metric.name for metric in self.counters if metric.headline]

    @cached_property
    def _roles(self) -> dict[str, Axis]:
        """The axis that has a role in the first family with one."""
        found: dict[str, Axis] = {}
        for family in self.families.values():
            for axis in family.axes:
                if axis.role:
                    found.setdefault(axis.role, Axis(axis.name, role=axis.role))
        return found

    def axis_with_role(self, family: str, role: str) -> Axis | None:
        """For a family that the contract does not know, the axis that has the role in the others."""
        return self.families[family].with_role(role) if family in self.families else self._roles.get(role)


def _family(entry: dict[str, Any]) -> Family:
    axes = tuple(Axis(axis["name"], axis.get("default"), axis.get("role", "")) for axis in entry["axes"])
    growth = {row["axis"]: float(row["exponent"]) for row in entry.get("growth", [])}
    return Family(entry["name"], axes, growth)


def _model_step(entry: dict[str, Any]) -> ModelStep:
    parts = tuple(Work(part["flops"], part["bytes"]) for part in entry["parts"])
    return ModelStep(entry["model"], entry["step"], entry["format"], entry["tokens"], entry["memory"], parts)


def parse(document: dict[str, Any]) -> Contract:
    """`document` fits the schema of contracts."""
    metrics = [
        Metric(
            row["name"],
            row["unit"],
            Better(row["better"]),
            row["threshold"],
            row["noisy"],
            row.get("headline", False),
        )
        for row in document["counters"]
    ]
    return Contract(
        version=document["version"],
        families={entry["name"]: _family(entry) for entry in document["families"]},
        counters=tuple(metric for metric in metrics if metric.name != TIME.name),
        time=next((metric for metric in metrics if metric.name == TIME.name), TIME),
        models=tuple(map(_model_step, document.get("models", []))),
    )


def reduced(document: dict[str, Any]) -> dict[str, Any]:
    """The part of a contract that the reports read, which is packaged with them."""

    def kept(row: dict[str, Any], *names: str) -> dict[str, Any]:
        return {name: row[name] for name in names if row.get(name) not in (None, "", [])}

    families = [
        kept(family, "name", "cache_default")
        | {"axes": [kept(axis, "name", "default", "role") for axis in family["axes"]]}
        | kept(family, "growth")
        for family in document["families"]
    ]
    counters = [
        {name: row[name] for name in ("name", "unit", "better", "threshold", "noisy")}
        | ({"headline": True} if row.get("headline") else {})
        for row in document["counters"]
    ]
    names = ("schema", "version")
    return kept(document, *names) | {"families": families, "counters": counters, "models": document["models"]}


def reduced_text(document: dict[str, Any]) -> str:
    """One line for each family, counter and step of a model, or for each axis of a family with many."""

    def family_lines(family: dict[str, Any]) -> str:
        line = json.dumps(family, ensure_ascii=False)
        return line if len(line) <= 116 else line.replace('"axes": [', '"axes": [\n   ').replace("}, {", "},\n   {")

    small = reduced(document)
    families = ",\n  ".join(map(family_lines, small["families"]))
    counters, models = (
        ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in small[rows]) for rows in ("counters", "models")
    )
    head = f'"schema": "{small["schema"]}", "version": {small["version"]}'
    tables = f'"families": [\n  {families}],\n "counters": [\n  {counters}],\n "models": [\n  {models}]'
    return f"{{{head},\n {tables}}}\n"


@cache
def packaged() -> Contract:
    """The contract of the program that these reports came with. build/release/bin/roofbench --describe=json, through
    reduced_text(), makes the file.
    """
    return parse(json.loads(PACKAGED.read_text(encoding="utf-8")))


CONTRACT_KEY = "contract"


def unpacked_contract(path: Path, text: str | None) -> Any:
    """Parses the text in which Google Benchmark's context holds a contract."""
    if text is None:
        return None
    try:
        return source.parse_json(text)
    except source.StrictJsonError as error:
        raise refuse(path, f"its contract is damaged: {error}") from error


def read_contract(path: Path, document: Any) -> Contract:
    """packaged() itself where the file lacks one."""
    if document is None:
        return packaged()
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise refuse(path, f"its contract has the schema {str(schema)[:60]!r}; this program reads {SCHEMA!r}")
    wrong = violation(document, "contract")
    if wrong:
        raise refuse(path, f"its contract does not fit the schema: {wrong}")
    return parse(document)
