# SPDX-License-Identifier: Apache-2.0
"""Reads the output of --profile: the JSON of one case, or of every case in a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roofreport.io.source import Entry, StrictJsonError, files_in, parse_json, read_text, refuse

VERSION = 1


@dataclass(frozen=True)
class Kernel:
    name: str
    phase: str
    work: str  # product, attention, softmax, other
    calls: float
    total: float  # seconds of a step, as are all times here


@dataclass(frozen=True)
class Part:
    """A part of the model: "forward/block 3/attention"; "" is the step."""

    path: str
    calls: float
    total: float
    flops: float

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
    case: str
    stopwatch: Clocked
    profiled: float
    phases: dict[str, Clocked]  # by name
    kernels: tuple[Kernel, ...]
    parts: tuple[Part, ...]  # the step first, each before those inside it


_MILLI = 1e-3


def _clocked(row: Entry) -> Clocked:
    return Clocked(row.number("stopwatch_ms") * _MILLI, row.number("timed_ms") * _MILLI)


def _kernel(row: Entry) -> Kernel:
    return Kernel(
        name=row.text("name"),
        phase=row.text("phase"),
        work=row.text("work"),
        calls=row.number("calls"),
        total=row.number("total_ms") * _MILLI,
    )


def _part(row: Entry, on_device: bool) -> Part:
    return Part(
        path=row.text("path"),
        calls=row.number("calls"),
        total=row.number("total_device_ms" if on_device else "total_ms") * _MILLI,
        flops=row.number("flops"),
    )


def _read(path: Path) -> Profile:
    try:
        value = parse_json(read_text(path))
    except StrictJsonError as error:
        raise refuse(path, f"is not a profile: {error}") from error
    if not isinstance(value, dict) or value.get("roofbench_profile") != VERSION:
        raise refuse(path, "is not a profile of a case; --profile=FOLDER writes them as <case>.json")
    row = Entry(value, path, "a profile")
    parts = tuple(_part(each, row.number("device_ms") > 0) for each in row.entries("modules"))
    if not parts or parts[0].path or len({part.path for part in parts}) < len(parts):
        raise row.refusal("its modules are not the step and parts of it, each once")
    return Profile(
        case=row.text("case"),
        stopwatch=_clocked(row),
        profiled=row.number("profiled_ms") * _MILLI,
        phases={phase.text("name"): _clocked(phase) for phase in row.entries("phases")},
        kernels=tuple(map(_kernel, row.entries("kernels"))),
        parts=parts,
    )


def load(path: Path) -> list[Profile]:
    """Profiles of every case in a folder, by name. Raises UnusableInputError."""
    found = files_in(path, "*.json", "profile; --profile")
    return sorted(map(_read, found), key=lambda profile: profile.case)
