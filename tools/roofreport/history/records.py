# SPDX-License-Identifier: Apache-2.0
"""The contents of a history: runs, the series of their cases, and annotations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from hashlib import sha256

from roofreport.io.contract import Contract
from roofreport.io.result import State
from roofreport.text import shortened


@dataclass(frozen=True)
class _Described:
    id: str  # 12 hexadecimal digits of a hash over `facts`
    label: str
    facts: Mapping[str, str] = field(compare=False)


class Machine(_Described):
    """The machine of a run. A series belongs to one of them."""


class Toolchain(_Described):
    """The parts of the program: LibTorch, compiler, kind of build, version of the contract."""


# Flags without which some cases do not exist, and those that choose cases, besides --suite, which the context states.
MAKING_CASES = ("axis", "ranks", "checkpoint", "draft_checkpoint", "unverified")
_SELECTING = tuple(f"--{flag}" for flag in (*MAKING_CASES, "benchmark_filter", "filter"))
_WORD = re.compile(r"(?:'[^']*'|\\.|[^\s'\\])+")

Environment = tuple[str, str]  # of a machine and a toolchain: what the series of two runs have in common


@dataclass(frozen=True)
class Run:
    """One process of roofbench."""

    id: int
    digest: str  # of its record: adding it twice is adding it once
    started: datetime  # aware, UTC
    revision: str  # the commit; empty where it is unknown
    machine: Machine
    toolchain: Toolchain
    context: Mapping[str, str] = field(compare=False)
    name: str  # of the file it came from

    @property
    def environment(self) -> Environment:
        return self.machine.id, self.toolchain.id

    @cached_property
    def selection(self) -> tuple[str, ...]:
        """The choice of its cases: runs of one program and selection have the same ones."""
        words = _WORD.findall(self.context.get("command_line", ""))
        chosen = {word for word in words if word.lstrip("'").startswith(_SELECTING)}
        return self.context.get("suite", ""), *sorted(chosen)


def by_environment(runs: Iterable[Run]) -> dict[Environment, list[Run]]:
    groups: dict[Environment, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.environment, []).append(run)
    return groups


@dataclass(frozen=True)
class Series:
    """One metric of one case, as one machine and one toolchain measure it."""

    case: str
    metric: str
    machine: Machine
    toolchain: Toolchain

    @property
    def environment(self) -> Environment:
        return self.machine.id, self.toolchain.id

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
    doubt: str  # why its rows support no conclusion about its time; empty: they do
    counters: Mapping[str, float] = field(compare=False)


@dataclass(frozen=True)
class CaseDetails:
    """Facts of a run about one case beyond its readings."""

    samples_s: Sequence[float]  # none from JSON
    stop: str  # why sampling ended
    precisions: tuple[str, ...]  # of its arithmetic; none from JSON


@dataclass(frozen=True)
class Annotation:
    """A remark on some cases: an accepted change, a note, or what the gate found out about a series in one night."""

    id: int = field(compare=False)
    pattern: str  # a case's name, or a pattern with * and ?; empty: all; the gate's: the key of a series
    machine_id: str  # empty: all
    since: datetime  # aware, UTC
    why: str
    kind: str  # one of KINDS
    made: datetime = field(compare=False)


CONFIRMED, DISMISSED = VERDICTS = ("confirmed", "dismissed")  # of a second run
PROFILE = "profile"
KINDS = ("accepted", "note", *VERDICTS, PROFILE)


@dataclass(frozen=True)
class Added:
    """The outcome of adding a result to a history."""

    run: Run
    is_new: bool  # False: the run was there already
    cases: int
    completed: bool = False  # it existed as what its JSON became, which the program's own record has replaced
    new_machine: bool = False
    new_toolchain: bool = False


# The facts that identify the machine and the toolchain of a run: where one of them changes, a new series begins.

# Keys of a context. Not the name of the host: machines of one kind come and go, and so do names of containers.
_MACHINE = (
    "device_kind",
    "device",
    "device_arch",
    "cpu_isa",
    "cpu_count",
    "cpu_caches",
    "gpu_multiprocessors",
    "threads",
    "gpu_driver",
    "cuda_driver",
)
_TOOLCHAIN = ("torch_version", "compiler", "cuda_runtime", "build_type", "allocator")
CONTRACT = "contract_version"

# The parts of their labels, in this order: the fact, and the text around it.
_MACHINE_LABEL = (("device", "{}"), ("threads", "{} thread{s}"), ("gpu_driver", "driver {}"))
_UNNAMED_MACHINE_LABEL = (("cpu_count", "{} processor{s}"), ("cpu_caches", "{}"))
_TOOLCHAIN_LABEL = (
    ("torch_version", "LibTorch {}"),
    ("compiler", "{}"),
    ("build_type", "{}"),
    (CONTRACT, "contract {}"),
)
_LONGEST_LABEL = 200


def _id(facts: Mapping[str, str]) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def _label(facts: Mapping[str, str], parts: Sequence[tuple[str, str]]) -> str:
    known = ", ".join(
        text.format(facts[key], s="" if facts[key] == "1" else "s") for key, text in parts if facts.get(key)
    )
    return shortened(known, _LONGEST_LABEL) or "unknown"


def _chosen(context: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    """Facts that the context lacks are not part of the fingerprint."""
    return {key: context[key] for key in keys if key in context}


def machine_of(context: Mapping[str, str]) -> Machine:
    facts = _chosen(context, _MACHINE)
    return Machine(_id(facts), _label(facts, _MACHINE_LABEL if "device" in facts else _UNNAMED_MACHINE_LABEL), facts)


def toolchain_of(context: Mapping[str, str], contract: Contract) -> Toolchain:
    facts = _chosen(context, _TOOLCHAIN) | {CONTRACT: str(contract.version)}
    return Toolchain(_id(facts), _label(facts, _TOOLCHAIN_LABEL), facts)
