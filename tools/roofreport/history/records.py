# SPDX-License-Identifier: Apache-2.0
"""What a history holds: runs, the series that their cases make, and what people have written beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from hashlib import sha256

from roofreport.io.contract import Contract
from roofreport.io.result import Result, State


@dataclass(frozen=True)
class Machine:
    """Who measured. No series spans two of them."""

    id: str  # 12 hexadecimal digits of a hash over `facts`
    label: str
    facts: Mapping[str, str] = field(compare=False)


@dataclass(frozen=True)
class Toolchain:
    """What the program was made of: LibTorch, compiler, kind of build, version of the contract."""

    id: str
    label: str
    facts: Mapping[str, str] = field(compare=False)


@dataclass(frozen=True)
class Run:
    """One process of roofbench."""

    id: int
    digest: str  # of the result: adding it twice is adding it once
    started: datetime  # aware, UTC
    revision: str  # the commit; empty where it is unknown
    machine: Machine
    toolchain: Toolchain
    context: Mapping[str, str] = field(compare=False)
    name: str  # of the file it came from


@dataclass(frozen=True)
class Series:
    """One metric of one case, as one machine and one toolchain measure it."""

    case: str
    metric: str
    machine: Machine
    toolchain: Toolchain

    @cached_property
    def key(self) -> str:
        """Stable, and fit for a URL."""
        parts = "\n".join((self.case, self.metric, self.machine.id, self.toolchain.id))
        return sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric of one case in one run."""

    run: Run
    value: float | None  # median over repetitions, in seconds where it is a time; None: not measured
    state: State
    reason: str
    noisy: bool
    counters: Mapping[str, float] = field(compare=False)


@dataclass(frozen=True)
class CaseDetails:
    """What a run tells of one case beyond its readings. A result without its journal has no samples."""

    samples_s: Sequence[float] = ()
    roof_name: str = ""
    roof_ratios: Sequence[float] = ()  # one a probe
    chunks: Sequence[Mapping[str, float]] = ()
    phases: Mapping[str, Sequence[float]] = field(default_factory=dict)  # samples in seconds
    counters: Mapping[str, float] = field(default_factory=dict)
    stop: str = ""  # why sampling ended
    state: State = State.MEASURED
    reason: str = ""


@dataclass(frozen=True)
class Annotation:
    """What somebody said about some cases: a change that is accepted, or a note."""

    id: int
    pattern: str  # a case's name, or a pattern with * and ?; empty: all
    machine_id: str  # empty: all
    since: datetime  # aware, UTC
    why: str
    kind: str  # one of KINDS
    made: datetime


KINDS = ("accepted", "note")


@dataclass(frozen=True)
class Document:
    """A result file as it was written."""

    kind: str  # one of DOCUMENTS
    text: str
    written: Result = field(compare=False)  # with the names of cases that the file gives them

    @property
    def contract(self) -> Contract:
        return self.written.contract


JSON, JOURNAL = DOCUMENTS = ("json", "journal")


@dataclass(frozen=True)
class Added:
    """What became of a result that was given to a history."""

    run: Run
    is_new: bool  # False: the run was there already
    cases: int
    completed: bool = False  # it was there, and this file has brought what it lacked: the samples of a journal
    new_machine: bool = False
    new_toolchain: bool = False
