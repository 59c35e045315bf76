# SPDX-License-Identifier: Apache-2.0
"""The figures of all engines by round, and the table of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from roofreport.text import printable

from peer_runs.turns import OURS


@dataclass
class Row:
    """An engine in one precision. A round without a figure is None."""

    name: str
    bits: str
    settings: dict[str, str]
    versions: dict[str, str] = field(default_factory=dict)
    ms: list[float | None] = field(default_factory=list)
    error: str = ""

    def median(self) -> float | None:
        figures = [figure for figure in self.ms if figure is not None]
        return statistics.median(figures) if figures else None


@dataclass(frozen=True)
class Ratio:
    """A peer's time over ours in the rounds that have both: of the medians, and the extremes by round."""

    median: float
    least: float
    most: float
    won: int  # rounds in which the peer takes longer
    rounds: int


def ratio(theirs: Row, ours: Row) -> Ratio | None:
    pairs = [(a, b) for a, b in zip(theirs.ms, ours.ms, strict=True) if a is not None and b is not None]
    if not pairs:
        return None
    rounds = [a / b for a, b in pairs]
    medians = [statistics.median(side) for side in zip(*pairs, strict=True)]
    return Ratio(medians[0] / medians[1], min(rounds), max(rounds), sum(one > 1 for one in rounds), len(rounds))


def ours_of(rows: Sequence[Row], bits: str) -> Row:
    return next(row for row in rows if row.name == OURS and row.bits == bits)


def best_peer(rows: Sequence[Row], bits: str) -> tuple[Row, Ratio] | None:
    """The fastest peer of this precision by the medians of its common rounds with us."""
    ours = ours_of(rows, bits)
    others = [row for row in rows if row.bits == bits and row.name != OURS]
    found = [(row, against) for row in others if (against := ratio(row, ours))]
    return min(found, key=lambda pair: pair[1].median) if found else None


def ahead(rows: Sequence[Row], bits: str) -> str:
    best = best_peer(rows, bits)
    if not best:
        return f"{bits}: no peer to compare with"
    row, against = best
    return (
        f"{bits}: the best peer, {row.name}, takes {against.median:.2f} of {OURS}'s time, {against.least:.2f} to "
        f"{against.most:.2f} by rounds; {OURS} is ahead in {against.won} of {against.rounds}"
    )


def words(facts: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def cells(row: Row, ours: Row) -> tuple[str, ...]:
    median, found = row.median(), ratio(row, ours)
    facts = f"failed: {row.error}" if row.error else f"{words(row.versions)}; {words(row.settings)}"
    return (
        row.bits,
        row.name,
        "-" if median is None else f"{median:.2f}",
        "-" if found is None else f"{found.median:.2f}",
        "-" if found is None else f"{found.least:.2f} to {found.most:.2f}",
        printable(facts, 400),
    )


def table(rows: Sequence[Row]) -> list[str]:
    order = [row.bits for row in rows]
    lines = [("bits", "engine", "ms", "over ours", "by rounds", "versions; settings")]
    lines += [cells(row, ours_of(rows, row.bits)) for row in sorted(rows, key=lambda row: order.index(row.bits))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
