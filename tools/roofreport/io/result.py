# SPDX-License-Identifier: Apache-2.0
"""The result of one run: its context and its cases, from either format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from statistics import fmean, median

from roofreport.io.contract import TIME, Axis, Contract, Family, Metric, packaged
from roofreport.text import inert, printable, shortened


class State(Enum):
    MEASURED = "measured"
    SKIPPED = "skipped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Case:
    """One repetition of one case."""

    name: str
    repetition: int
    state: State
    reason: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    precisions: tuple[str, ...] = ()  # of its arithmetic; none where the row does not say
    stop: str = ""
    counters: dict[str, float] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)  # as the row has them; an older row has none
    samples: Sequence[float] = ()  # seconds, of a journal
    repetitions: Sequence[Case] = ()  # those that merged() made it of
    processes: Sequence[Case] = ()  # those that over_processes() made it of

    def value(self, metric: str) -> float | None:
        """The value of "time" (seconds) or of a counter; None if the case lacks it."""
        return self.seconds if metric == TIME.name else self.counters.get(metric)

    def deviation(self, counter: str) -> float | None:
        """A standard deviation among the counters; None of a single sample, which has none."""
        return None if self.counters.get("samples", 2) < 2 else self.counters.get(counter)

    @property
    def is_interrupted(self) -> bool:
        """Measured in part, before a signal ended the run: --resume measures it again."""
        return self.state is State.MEASURED and self.stop == State.INTERRUPTED.value

    @property
    def out_of_memory(self) -> bool:
        text = self.reason.lower()
        return self.state is State.SKIPPED and ("out of memory" in text or ("needs" in text and "memory" in text))

    @property
    def why_not(self) -> str:
        """The reason why a case lacks a figure: "OOM: …", "skipped: …", "failed: …"."""
        kind = "OOM" if self.out_of_memory else self.state.value
        return f"{kind}: {self.reason}" if self.reason else kind


@dataclass(frozen=True)
class Result:
    """One file: one process."""

    path: Path
    context: dict[str, str]
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()
    host: str = ""
    date: str = ""
    contract: Contract = field(default_factory=packaged)  # the file's own, or else the packaged one itself
    is_record: bool = True  # a journal; False: Google Benchmark's JSON

    @property
    def name(self) -> str:
        """For messages and legends."""
        return printable(str(self.path))

    def by_name(self) -> dict[str, list[Case]]:
        """The repetitions of each case, in the order of the file."""
        groups: dict[str, list[Case]] = {}
        for case in self.cases:
            groups.setdefault(case.name, []).append(case)
        return groups

    def merged(self) -> dict[str, Case]:
        """Each case once, its repetitions merged."""
        return {name: merged(repetitions) for name, repetitions in self.by_name().items()}


def _inert_facts(facts: Mapping[str, str]) -> dict[str, str]:
    return {inert(key): inert(value) for key, value in facts.items()}


def _inert_case(case: Case) -> Case:
    counters = {inert(name): value for name, value in case.counters.items()}
    return replace(
        case,
        name=inert(case.name),
        reason=inert(case.reason),
        precisions=tuple(map(inert, case.precisions)),
        stop=inert(case.stop),
        counters=counters,
        axes=_inert_facts(case.axes),
    )


def _inert_contract(contract: Contract) -> Contract:
    """A contract's names are of cases and counters, and its defaults stand for parts of names."""

    def family(one: Family) -> Family:
        axes = (Axis(inert(each.name), each.default and inert(each.default), inert(each.role)) for each in one.axes)
        return Family(inert(one.name), tuple(axes), {inert(axis): exponent for axis, exponent in one.growth.items()})

    def metric(one: Metric) -> Metric:
        return replace(one, name=inert(one.name), unit=inert(one.unit))

    families = {inert(name): family(one) for name, one in contract.families.items()}
    return Contract(contract.version, families, tuple(map(metric, contract.counters)), metric(contract.time))


def inert_result(result: Result) -> Result:
    """The result of a file, whose texts are its writer's."""
    return replace(
        result,
        context=_inert_facts(result.context),
        cases=tuple(map(_inert_case, result.cases)),
        notes=tuple(map(inert, result.notes)),
        host=inert(result.host),
        date=inert(result.date),
        contract=result.contract if result.contract is packaged() else _inert_contract(result.contract),
    )


_PRIORITY = (State.FAILED, State.MEASURED, State.SKIPPED, State.INTERRUPTED)


def merged(repetitions: Sequence[Case]) -> Case:
    """One case for all its repetitions: medians of those that were measured to their end, or else of the interrupted
    ones. One failure makes all of it a failure.
    """
    state = min((case.state for case in repetitions), key=_PRIORITY.index)
    chosen = [case for case in repetitions if case.state is state]
    chosen = [case for case in chosen if not case.is_interrupted] or chosen
    first = chosen[0]
    if len(chosen) == 1 or first.state is not State.MEASURED:
        return first
    common = set(first.counters).intersection(*(case.counters for case in chosen))
    return Case(
        name=first.name,
        repetition=0,
        state=State.MEASURED,
        seconds=median(case.seconds for case in chosen),
        cpu_seconds=median(case.cpu_seconds for case in chosen),
        flops=fmean(case.flops for case in chosen),
        bytes=fmean(case.bytes for case in chosen),
        precisions=first.precisions,
        stop=first.stop,
        counters={key: median(c.counters[key] for c in chosen) for key in first.counters if key in common},
        axes=first.axes,
        repetitions=[row for case in chosen for row in case.repetitions or [case]],
    )


def over_processes(processes: Sequence[Case]) -> Case:
    """One case for its processes, each of which counts the same."""
    return replace(merged(processes), processes=[case for case in processes if case.state is State.MEASURED])


# The facts of a context that are the hardware, and those that are settings.

HARDWARE = ("device_kind", "device", "device_arch", "cpu_isa", "cpu_count", "cpu_caches")
SETTINGS = (
    "threads",
    "build_type",
    "torch_version",
    "allocator",
    "check",
    "seed",
    "cpu_affinity",
    "cpu_governor",
    "huge_pages",
)


def _differing(base: Result, new: Result, keys: tuple[str, ...]) -> list[str]:
    return [
        f"{key}: {shortened(base.context[key], 60)} / {shortened(new.context[key], 60)}"
        for key in keys
        if key in base.context and key in new.context and base.context[key] != new.context[key]
    ]


def differences(base: Result, new: Result, with_host: bool = False) -> list[str]:
    """The facts of the hardware that differ: "device: A / B". The host's name distinguishes machines of one kind."""
    found = _differing(base, new, HARDWARE)
    if with_host and base.host and new.host and base.host != new.host:
        found.append(f"host_name: {shortened(base.host, 60)} / {shortened(new.host, 60)}")
    return found


def other_settings(base: Result, new: Result) -> list[str]:
    """The settings that differ: a comparison of them is allowed, and reported."""
    return _differing(base, new, SETTINGS)
