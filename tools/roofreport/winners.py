"""Which implementation of each piece of work was fastest, and what it leaves on the table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofreport import case_name, units
from roofreport.result import Case, State
from roofreport.text import printable

AXIS = "impl"


@dataclass(frozen=True)
class Winner:
    work: str  # the cases' name without the implementation
    implementation: str
    seconds: float
    roof: float | None  # its roof fraction
    runner_up: str
    lead: float  # the runner-up's time over the winner's

    def text(self) -> str:
        if self.roof is None:
            left = "no roof known"
        elif self.roof < 1:
            left = f"{100 * self.roof:.1f} % of the roof, {100 * (1 - self.roof):.1f} % left"
        else:
            left = f"{100 * self.roof:.1f} % of the roof, nothing left"
        return (
            f"fastest: {printable(self.work, 300)}: {printable(self.implementation)},"
            f" {units.time(self.seconds)}, {left}, {self.lead:.2f}x {printable(self.runner_up)}"
        )


@dataclass(frozen=True)
class Precision:
    """The precision that generates tokens fastest, of the cases that differ in it alone."""

    work: str  # the cases' name without the precision
    precision: str
    rate: float  # tokens a second
    runner_up: str
    lead: float  # its rate over the runner-up's
    bytes_share: float  # its weights over the runner-up's

    def text(self) -> str:
        return (
            f"precision to serve in: {printable(self.work, 300)}: {printable(self.precision)},"
            f" {self.rate:.1f} tokens/s, {self.lead:.2f}x {printable(self.runner_up)}"
            f" at {self.bytes_share:.2f} of its bytes"
        )


def find_precisions(cases: Iterable[Case]) -> list[Precision]:
    """One for each generation that was measured in two precisions or more."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        precision = case_name.axes(case.name).get("precision")
        if case.state is State.MEASURED and precision and {"itl_ms", "tokens/s", "model_bytes"} <= case.counters.keys():
            work = "/".join(part for part in case.name.split("/") if not part.startswith("precision:"))
            groups.setdefault(work, []).append(case)
    found = []
    for work, group in groups.items():
        if len(group) < 2:
            continue
        best, second = sorted(group, key=lambda case: case.counters["tokens/s"], reverse=True)[:2]
        found.append(
            Precision(
                work,
                case_name.axes(best.name)["precision"],
                best.counters["tokens/s"],
                case_name.axes(second.name)["precision"],
                best.counters["tokens/s"] / second.counters["tokens/s"],
                best.counters["model_bytes"] / second.counters["model_bytes"],
            )
        )
    return found


def work_of(name: str) -> str:
    """The name without its implementation."""
    return "/".join(part for part in name.split("/") if not part.startswith(f"{AXIS}:"))


def implementation_of(name: str) -> str:
    return case_name.axes(name).get(AXIS, "")


def by_work(names: Iterable[str]) -> dict[str, list[str]]:
    """Work -> the names of its implementations, for work that has two or more."""
    groups: dict[str, list[str]] = {}
    for name in names:
        if implementation_of(name):
            groups.setdefault(work_of(name), []).append(name)
    return {work: group for work, group in groups.items() if len(group) > 1}


def find(cases: Iterable[Case]) -> list[Winner]:
    """One for each piece of work of which two or more implementations were measured."""
    measured = {case.name: case for case in cases if case.state is State.MEASURED and case.seconds > 0}
    winners = []
    for work, names in by_work(measured).items():
        best, second = sorted((measured[name] for name in names), key=lambda case: case.seconds)[:2]
        winners.append(
            Winner(
                work,
                implementation_of(best.name),
                best.seconds,
                best.counters.get("roof"),
                implementation_of(second.name),
                second.seconds / best.seconds,
            )
        )
    return winners
