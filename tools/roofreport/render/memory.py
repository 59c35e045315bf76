# SPDX-License-Identifier: Apache-2.0
"""Snapshots of memory: the bytes alive after each event by category, as tables and as a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from roofreport import units
from roofreport.io.snapshot import Allocation, Snapshot
from roofreport.render.formats import Cell, Table
from roofreport.render.svg import escape
from roofreport.text import printable

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


_NAME = 100
# Counters of a case that say the same of a category from elsewhere.
_COUNTERS = {
    "parameters": "parameter_mem",
    "optimizer state": "optimizer_mem",
    "gradients": "gradient_mem",
    "activations": "activation_mem",
}


def _text(value: str) -> Cell:
    return Cell(printable(value, _NAME), numeric=False)


def _bytes(value: float | None) -> Cell:
    return Cell("-") if not value else Cell(units.quantity(value, "B"), value)


def _with_counter(value: int, counter: float | None) -> Cell:
    """At the peak, and in brackets what the case's own counter says of the whole step where that is more or less."""
    if not counter or abs(counter - value) <= 0.01 * counter:
        return _bytes(value)
    return Cell(f"{units.quantity(value, 'B') if value else '-'} ({units.quantity(counter, 'B')})", value)


def _labels(names: Sequence[str]) -> tuple[list[str], str]:
    """What tells the cases apart, behind their family, and what they have in common."""
    parts = [name.split("/") for name in names]
    common = [part for part in parts[0][1:] if len(names) > 1 and all(part in other for other in parts)]
    return ["/".join(part for part in one if part not in common) for one in parts], "/".join(common)


def peaks(snapshots: Sequence[Snapshot], curves: Sequence[Curve]) -> Table:
    """A row a snapshot, each with its own curve."""
    labels, common = _labels([snapshot.case for snapshot in snapshots])
    known = {name for each in curves for name in each.categories}
    names = [name for name in CATEGORIES if name in known]
    rows = []
    for snapshot, label, each in zip(snapshots, labels, curves, strict=True):
        at = {name: layer[each.peak_at] for name, layer in zip(each.categories, each.layers, strict=True)}
        cells = [_with_counter(at.get(name, 0), snapshot.counters.get(_COUNTERS.get(name, ""))) for name in names]
        counter = snapshot.counters.get("peak_mem")
        rows.append((_text(label), _bytes(each.peak), _bytes(counter),
                     _text(phase_at(snapshot, each.peak_at)), *cells))  # fmt: skip
    legend = ["in brackets: the case's own counter, where it differs from what is alive at the peak"]
    if common:
        legend.append(f"in every case: {printable(common, 300)}")
    legend += [
        f"{printable(snapshot.case, _NAME)}: {snapshot.dropped} events were too many to keep; its peak may be higher"
        for snapshot in snapshots
        if snapshot.dropped
    ]
    return Table(("case", "peak", "peak_mem", "in", *names), tuple(rows), tuple(legend))


def _merged(found: Sequence[Allocation]) -> list[tuple[Allocation, int]]:
    """Those of one size, site and category together, with how many they are."""
    sums: dict[tuple[int, str, str], int] = {}
    first: dict[tuple[int, str, str], Allocation] = {}
    for each in found:
        key = (each.size, each.site, each.category)
        sums[key] = sums.get(key, 0) + 1
        first.setdefault(key, each)
    return [(first[key], count) for key, count in sums.items()]


def largest(snapshot: Snapshot, drawn: Curve, most: int) -> Table:
    """What is alive at the peak, the largest allocation first."""
    found = _merged(alive(snapshot, drawn.peak_at))
    rows = [
        (_bytes(one.size), Cell(str(count), count), _text(one.category), _text(one.site or "-"))
        for one, count in found[:most]
    ]
    left = sum(count for _, count in found[most:])
    legend = (f"… and {left} smaller ones (--rows)",) if left else ()
    return Table(("size", "of them", "category", "made in"), tuple(rows), legend)


_WIDTH, _HEIGHT = 1100.0, 560.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 80.0, 20.0, 96.0, 40.0
_MOST_POINTS = 1000  # of a layer
_LETTER = 6.6
# Of Okabe and Ito, by the place of a category.
_COLOURS = ("#999999", "#0072b2", "#56b4e9", "#009e73", "#bbbbbb", "#e69f00", "#d55e00", "#cc79a7", "#777777")
_BANDS = ("#eef1f5", "#ffffff")


def _columns(count: int, peak_at: int) -> list[int]:
    """Indices that are drawn: all, or evenly some, and the peak."""
    stride = max(1, -(-count // _MOST_POINTS))
    return sorted({*range(0, count, stride), count - 1, peak_at})


def _layers(drawn: Curve, columns: list[int], x: list[float], scale: float) -> list[str]:
    below = [0] * len(columns)
    found = []
    for name, layer in zip(drawn.categories, drawn.layers, strict=True):
        above = [low + layer[index] for low, index in zip(below, columns, strict=True)]
        edge = [f"{left:.1f},{_HEIGHT - _BOTTOM - scale * high:.1f}" for left, high in zip(x, above, strict=True)]
        back = [f"{left:.1f},{_HEIGHT - _BOTTOM - scale * low:.1f}" for left, low in zip(x, below, strict=True)]
        points = " ".join(edge + back[::-1])
        title = f"{name}: {units.quantity(max(layer), 'B')} at most"
        found.append(f'<polygon fill="{_colour(name)}" points="{points}"><title>{escape(title)}</title></polygon>')
        below = above
    return found


def _colour(category: str) -> str:
    place = CATEGORIES.index(category) if category in CATEGORIES else len(CATEGORIES) - 1
    return _COLOURS[place]


def _phases(snapshot: Snapshot, across: float) -> list[str]:
    """A band a phase; those of one name and step beside each other are one."""
    found = []
    runs = [list(run) for _, run in groupby(snapshot.phases, key=lambda phase: (phase.step, phase.name))]
    for number, run in enumerate(runs):
        left = _LEFT + across * run[0].begin
        width = across * (run[-1].end - run[0].begin)
        label = run[0].name if len(run[0].name) * _LETTER < width - 4 else ""
        height = _HEIGHT - _BOTTOM - _TOP + 18
        found.append(
            f"<g><title>{escape(f'{run[0].name}, step {run[0].step + 1}')}</title>"
            f'<rect x="{left:.1f}" y="{_TOP - 18:.0f}" width="{width:.1f}" height="{height:.0f}"'
            f' fill="{_BANDS[number % 2]}" stroke="#c5ccd5" stroke-width="0.5"/>'
            f'<text x="{left + 4:.1f}" y="{_TOP - 5:.0f}">{escape(label)}</text></g>'
        )
    return found


def _legend(drawn: Curve) -> list[str]:
    found, left = [], _LEFT
    for name in drawn.categories:
        found.append(f'<rect x="{left:.0f}" y="42" width="12" height="12" fill="{_colour(name)}"/>')
        found.append(f'<text x="{left + 17:.0f}" y="52">{escape(name)}</text>')
        left += 17 + _LETTER * len(name) + 22
    return found


def _scale_marks(peak: int, scale: float) -> list[str]:
    found = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _HEIGHT - _BOTTOM - scale * peak * share
        text = units.quantity(peak * share, "B") if share else "0"
        found.append(f'<line x1="{_LEFT:.0f}" x2="{_WIDTH - _RIGHT:.0f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#c5ccd5"/>')
        found.append(f'<text x="{_LEFT - 6:.0f}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    return found


def timeline(snapshot: Snapshot, drawn: Curve) -> str:
    """Self-contained: no script, no font and no link."""
    count = snapshot.events + 1
    across = (_WIDTH - _LEFT - _RIGHT) / max(1, snapshot.events)
    scale = (_HEIGHT - _TOP - _BOTTOM) / drawn.peak if drawn.peak else 0.0
    columns = _columns(count, drawn.peak_at)
    x = [_LEFT + across * index for index in columns]
    place = _LEFT + across * drawn.peak_at
    peak = f"peak {units.quantity(drawn.peak, 'B')} ({phase_at(snapshot, drawn.peak_at)})"
    anchor = "end" if place > _WIDTH / 2 else "start"
    parts = [
        f'<text x="{_LEFT:.0f}" y="22" font-size="13">{escape(snapshot.case)}: bytes alive</text>',
        *_legend(drawn),
        *_phases(snapshot, across),
        *_scale_marks(drawn.peak, scale),
        *_layers(drawn, columns, x, scale),
        f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP:.0f}" y2="{_HEIGHT - _BOTTOM:.0f}"'
        ' stroke="#1c2430" stroke-dasharray="4 3"/>',
        f'<text x="{place:.1f}" y="{_TOP + 14:.0f}" text-anchor="{anchor}" font-weight="600">{escape(peak)}</text>',
        f'<text x="{_LEFT:.0f}" y="{_HEIGHT - 12:.0f}">allocations and their ends, in their order: '
        f"{snapshot.events} events</text>",
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}"'
        ' font-family="monospace" font-size="11" fill="#1c2430">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
