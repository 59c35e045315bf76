# SPDX-License-Identifier: Apache-2.0
"""The contract: what families, axes, implementations and counters are, as `roofbench --describe=json` says it.

Every result brings its own; packaged() is that of the program of this checkout, for results that are older than that.
Nothing else here knows the name of a family or of a counter's row.
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

SCHEMA = "roofbench-contract-1"
PACKAGED = Path(__file__).parents[1] / "contract.json"
# The role of the axis that says who does the work.
IMPLEMENTATION = "impl"


class Better(Enum):
    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True)
class Metric:
    """What a figure's unit is, which way is better, and which change is worth a word."""

    name: str  # "<ref>" stands for the prefix of --reference, "<phase>" for the name of a phase
    unit: str
    better: Better
    practical: float  # a smaller relative change means nothing in practice
    noisy: bool = True  # follows the clock; False: the same work gives the same figure

    def worse(self, change: float) -> bool:
        """Whether a change in this direction, for a metric that has one, is for the worse."""
        return (change > 0) == (self.better is Better.LOWER)


# What a case is timed for; every other metric is a counter. A contract may say it otherwise.
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

    def axis(self, name: str) -> Axis | None:
        return next((axis for axis in self.axes if axis.name == name), None)

    def with_role(self, role: str) -> Axis | None:
        return next((axis for axis in self.axes if axis.role == role), None)

    @property
    def leading(self) -> Axis | None:
        """The axis that others take their value from by default: the size of a model, of which its widths follow."""
        defaults = {axis.default for axis in self.axes}
        return next((axis for axis in self.axes if axis.name in defaults), None)


@dataclass(frozen=True)
class Rename:
    """A family (without `axis`), or an axis of one family or of all ("*"), or values of it, that had another name."""

    family: str
    to: str = ""
    axis: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile("".join(".+" if part.startswith("<") else re.escape(part) for part in re.split(r"(<\w+>)", name)))


@dataclass(frozen=True)
class Contract:
    version: int
    families: Mapping[str, Family]
    counters: tuple[Metric, ...]
    renames: tuple[Rename, ...] = ()
    time: Metric = TIME

    @cached_property
    def _by_name(self) -> dict[str, Metric]:
        return {metric.name: metric for metric in (self.time, *self.counters)}

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], Metric]]:
        """From the special to the general: a longer literal part first."""
        rows = [metric for metric in self.counters if "<" in metric.name]
        rows.sort(key=lambda metric: -len(re.sub(r"<\w+>", "", metric.name)))
        return [(_pattern(metric.name), metric) for metric in rows]

    def metric(self, name: str) -> Metric | None:
        """The row of a counter, or of "time"; None for a counter that the contract does not know."""
        if name in self._by_name:
            return self._by_name[name]
        return next((metric for pattern, metric in self._patterns if pattern.fullmatch(name)), None)

    def axis_with_role(self, family: str, role: str) -> Axis | None:
        """Of a family that the contract does not know: the axis that has the role in the others."""
        if family in self.families:
            return self.families[family].with_role(role)
        axes = (one.with_role(role) for one in self.families.values())
        found = next((axis for axis in axes if axis is not None), None)
        return Axis(found.name, role=role) if found else None

    def over(self, other: Contract) -> Contract:
        """This contract, and what it does not have of another one."""
        gone = {rename.family for rename in self.renames if not rename.axis}
        families = {name: family for name, family in other.families.items() if name not in gone}
        own = {metric.name for metric in self.counters}
        more = tuple(metric for metric in other.counters if metric.name not in own)
        return Contract(self.version, {**families, **self.families}, self.counters + more, self.renames, self.time)


def _family(entry: dict[str, Any]) -> Family:
    axes = tuple(Axis(axis["name"], axis.get("default"), axis.get("role", "")) for axis in entry["axes"])
    growth = {row["axis"]: float(row["exponent"]) for row in entry.get("growth", [])}
    return Family(entry["name"], axes, growth)


def parse(document: dict[str, Any]) -> Contract:
    """`document` fits the schema of contracts."""
    metrics = [
        Metric(row["name"], row["unit"], Better(row["better"]), row["threshold"], row["noisy"])
        for row in document["counters"]
    ]
    return Contract(
        version=document["version"],
        families={entry["name"]: _family(entry) for entry in document["families"]},
        counters=tuple(metric for metric in metrics if metric.name != TIME.name),
        renames=tuple(
            Rename(row["family"], row.get("to", ""), row.get("axis", ""), row.get("values", {}))
            for row in document.get("renames", [])
        ),
        time=next((metric for metric in metrics if metric.name == TIME.name), TIME),
    )


@cache
def packaged() -> Contract:
    """Of the program that these reports came with."""
    return parse(json.loads(PACKAGED.read_text(encoding="utf-8")))
