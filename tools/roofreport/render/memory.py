# SPDX-License-Identifier: Apache-2.0
"""Snapshots of memory: the bytes alive after each event by category, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from roofreport import units
from roofreport.io.snapshot import Allocation, Snapshot
from roofreport.render.formats import Cell, Table, figure, words
from roofreport.text import shortened

# From persistent memory to short-lived memory: the order of columns, and of the layers of a picture from below.
CATEGORIES = (
    "older",
    "parameters",
    "optimizer state",
    "kv cache",
    "operands",
    "gradients",
    "activations",
    "workspace",
    "unknown",
)


@dataclass(frozen=True)
class MemoryCurve:
    """Index 0 is before the first event, i + 1 after event i."""

    categories: tuple[str, ...]  # the categories that occur
    layers: tuple[tuple[int, ...], ...]  # bytes, one layer per category
    peak: int  # bytes
    peak_at: int  # the first index that has them


def curve(snapshot: Snapshot) -> MemoryCurve:
    places = {name: place for place, name in enumerate(CATEGORIES)}
    found = sorted({each.category for each in snapshot.allocations}, key=lambda name: (places.get(name, 99), name))
    steps = {name: [0] * (snapshot.events + 1) for name in found}
    for each in snapshot.allocations:
        steps[each.category][each.begin + 1] += each.size
        if each.end < snapshot.events:
            steps[each.category][each.end + 1] -= each.size
    layers = [tuple(accumulate(steps[name])) for name in found]
    totals = [sum(at) for at in zip(*layers, strict=True)] or [0]
    peak = max(totals)
    return MemoryCurve(tuple(found), tuple(layers), peak, totals.index(peak))


def alive(snapshot: Snapshot, at: int) -> list[Allocation]:
    """Those at an index of the curve, the largest first."""
    found = [each for each in snapshot.allocations if each.begin < at <= each.end]
    return sorted(found, key=lambda each: (-each.size, each.site))


def phase_at(snapshot: Snapshot, at: int) -> str:
    """The phase and the step of the event before an index."""
    for phase in snapshot.phases:
        if phase.begin < at <= phase.end:
            return f"{phase.name}, step {phase.step + 1}"
    return "before the steps" if snapshot.phases and at <= snapshot.phases[0].begin else "-"


_NAME = 100
# Counters of a case that measure a category independently.
_COUNTERS = {
    "parameters": "parameter_mem",
    "optimizer state": "optimizer_mem",
    "gradients": "gradient_mem",
    "activations": "activation_mem",
}


def _bytes(value: float | None) -> Cell:
    return figure(value, units.bytes_) if value else Cell("-")


def _with_counter(value: int, counter: float | None) -> Cell:
    """At the peak, and in brackets the case's own counter for the whole step where it differs."""
    if not counter or abs(counter - value) <= 0.01 * counter:
        return _bytes(value)
    return Cell(f"{units.bytes_(value) if value else '-'} ({units.bytes_(counter)})", value)


def _labels(names: Sequence[str]) -> tuple[list[str], str]:
    """The axes that differ between the cases, and the axes that they share."""
    parts = [name.split("/") for name in names]
    common = [part for part in parts[0][1:] if len(names) > 1 and all(part in other for other in parts)]
    return ["/".join(part for part in one if part not in common) for one in parts], "/".join(common)


def peaks(snapshots: Sequence[Snapshot], curves: Sequence[MemoryCurve]) -> Table:
    """One row per snapshot, each with its own curve."""
    labels, common = _labels([snapshot.case for snapshot in snapshots])
    known = {name for each in curves for name in each.categories}
    names = [name for name in CATEGORIES if name in known]
    rows = []
    for snapshot, label, each in zip(snapshots, labels, curves, strict=True):
        at = {name: layer[each.peak_at] for name, layer in zip(each.categories, each.layers, strict=True)}
        cells = [_with_counter(at.get(name, 0), snapshot.counters.get(_COUNTERS.get(name, ""))) for name in names]
        counter = snapshot.counters.get("peak_mem")
        phase = words(phase_at(snapshot, each.peak_at), _NAME)
        rows.append((words(label, _NAME), _bytes(each.peak), _bytes(counter), phase, *cells))
    legend = ["in brackets: the case's own counter, where it differs from what is alive at the peak"]
    if common:
        legend.append(f"in every case: {shortened(common, 300)}")
    legend += [
        f"{shortened(snapshot.case, _NAME)}: {snapshot.dropped} events were too many to keep; its peak may be higher"
        for snapshot in snapshots
        if snapshot.dropped
    ]
    return Table(("case", "peak", "peak_mem", "in", *names), tuple(rows), tuple(legend))


def largest(snapshot: Snapshot, drawn: MemoryCurve, most: int) -> Table:
    """The allocations alive at the peak, those of one size, site and category together, the largest first."""
    found = Counter((each.size, each.site, each.category) for each in alive(snapshot, drawn.peak_at))
    rows = [
        (_bytes(size), figure(count, str), words(category, _NAME), words(site or "-", _NAME))
        for (size, site, category), count in list(found.items())[:most]
    ]
    left = sum(list(found.values())[most:])
    legend = (f"… and {left} smaller ones (--rows)",) if left else ()
    return Table(("size", "of them", "category", "made in"), tuple(rows), legend)
