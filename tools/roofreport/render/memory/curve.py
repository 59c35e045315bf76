# SPDX-License-Identifier: Apache-2.0
"""How many bytes of each category are alive after each event of a history, and where the most are."""

from __future__ import annotations

from dataclasses import dataclass

from roofreport.memory.snapshot import Allocation, Snapshot

# From what stays to what comes and goes: the order of columns, and of the layers of a picture from below.
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
class Curve:
    """Index 0 is before the first event, i + 1 after event i."""

    categories: tuple[str, ...]  # those that there are
    layers: tuple[tuple[int, ...], ...]  # bytes, a layer a category
    peak: int  # bytes
    peak_at: int  # the first index that has them


def curve(snapshot: Snapshot) -> Curve:
    places = {name: place for place, name in enumerate(CATEGORIES)}
    found = sorted({each.category for each in snapshot.allocations}, key=lambda name: (places.get(name, 99), name))
    steps = {name: [0] * (snapshot.events + 1) for name in found}
    for each in snapshot.allocations:
        steps[each.category][each.begin + 1] += each.size
        if each.end < snapshot.events:
            steps[each.category][each.end + 1] -= each.size
    layers = []
    for name in found:
        total, layer = 0, []
        for step in steps[name]:
            total += step
            layer.append(total)
        layers.append(tuple(layer))
    totals = [sum(at) for at in zip(*layers, strict=True)] or [0]
    peak = max(totals)
    return Curve(tuple(found), tuple(layers), peak, totals.index(peak))


def alive(snapshot: Snapshot, at: int) -> list[Allocation]:
    """Those at an index of the curve, the largest first."""
    found = [each for each in snapshot.allocations if each.begin < at <= each.end]
    return sorted(found, key=lambda each: (-each.size, each.site))


def phase_at(snapshot: Snapshot, at: int) -> str:
    """Of the event before an index: its phase, and the step that it is in."""
    for phase in snapshot.phases:
        if phase.begin < at <= phase.end:
            return f"{phase.name}, step {phase.step + 1}"
    return "before the steps" if snapshot.phases and at <= snapshot.phases[0].begin else "-"
