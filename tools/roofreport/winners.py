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
