# SPDX-License-Identifier: Apache-2.0
"""Reads the output of --profile: the JSON of one case, or of every case in a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofreport.errors import UnusableInputError
from roofreport.io.source import StrictJsonError, parse_json, read_text, refuse
from roofreport.text import printable

VERSION = 1
_TRACE = ".trace.json"


@dataclass(frozen=True)
class Kernel:
    name: str
    phase: str
    work: str  # product, attention, softmax, other
    calls: float
    total: float  # seconds of a step, as are all times here
    flops: float
    share: float


@dataclass(frozen=True)
class Part:
    """A part of the model: "forward/block 3/attention"; "" is the step."""

    path: str
    calls: float
    total: float
    flops: float
    share: float

    @property
    def depth(self) -> int:
        return self.path.count("/") + 1 if self.path else 0

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Clocked:
    """A step or a phase of it, by the stopwatch."""

    recorded: float  # mean of the steps that the profiler recorded
    timed: float  # median of the samples, without the profiler


@dataclass(frozen=True)
class Profile:
    path: Path
    case: str
    device: str
    stopwatch: Clocked
    profiled: float
    covered: float
    phases: dict[str, Clocked]  # by name
    kernels: tuple[Kernel, ...]
    parts: tuple[Part, ...]  # the step first, each before those inside it


_MILLI = 1e-3


class _Row:
    """An object of the file, with the expected type of every field."""

    def __init__(self, value: Any, path: Path) -> None:
        if not isinstance(value, dict):
            raise refuse(path, "is not a profile: a row is not an object")
        self._value, self._path = value, path

    def text(self, key: str) -> str:
        found = self._value.get(key)
        if not isinstance(found, str):
            raise refuse(self._path, f"is not a profile: it has no text {key!r}")
        return found

    def number(self, key: str) -> float:
        found = self._value.get(key)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or found < 0:
            raise refuse(self._path, f"is not a profile: it has no number {key!r} from 0")
        return float(found)

    def rows(self, key: str) -> list[_Row]:
        found = self._value.get(key)
        if not isinstance(found, list):
            raise refuse(self._path, f"is not a profile: it has no list {key!r}")
        return [_Row(each, self._path) for each in found]


def _kernel(row: _Row) -> Kernel:
    return Kernel(
        name=row.text("name"),
        phase=row.text("phase"),
        work=row.text("work"),
        calls=row.number("calls"),
        total=row.number("total_ms") * _MILLI,
        flops=row.number("flops"),
        share=row.number("share"),
    )


def _part(row: _Row, on_device: bool) -> Part:
    return Part(
        path=row.text("path"),
        calls=row.number("calls"),
        total=row.number("total_device_ms" if on_device else "total_ms") * _MILLI,
        flops=row.number("flops"),
        share=row.number("share"),
    )


def _clocked(row: _Row) -> Clocked:
    return Clocked(row.number("stopwatch_ms") * _MILLI, row.number("timed_ms") * _MILLI)


def _read(path: Path) -> Profile:
    try:
        value = parse_json(read_text(path))
    except StrictJsonError as error:
        raise refuse(path, f"is not a profile: {printable(str(error))}") from error
    if not isinstance(value, dict) or value.get("roofbench_profile") != VERSION:
        raise refuse(path, "is not a profile of a case; --profile=FOLDER writes them as <case>.json")
    row = _Row(value, path)
    parts = tuple(_part(each, row.number("device_ms") > 0) for each in row.rows("modules"))
    if not parts or parts[0].path or len({part.path for part in parts}) < len(parts):
        raise refuse(path, "is not a profile: its modules are not the step and parts of it, each once")
    return Profile(
        path=path,
        case=row.text("case"),
        device=row.text("device"),
        stopwatch=_clocked(row),
        profiled=row.number("profiled_ms") * _MILLI,
        covered=row.number("covered"),
        phases={phase.text("name"): _clocked(phase) for phase in row.rows("phases")},
        kernels=tuple(_kernel(each) for each in row.rows("kernels")),
        parts=parts,
    )


def load(path: Path) -> list[Profile]:
    """Profiles of every case in a folder, by name. Raises UnusableInputError."""
    if not path.is_dir():
        return [_read(path)]
    files = sorted(each for each in path.glob("*.json") if not each.name.endswith(_TRACE))
    if not files:
        raise UnusableInputError(f"{printable(str(path))}: holds no profile; --profile=FOLDER writes them")
    return sorted((_read(each) for each in files), key=lambda profile: profile.case)
