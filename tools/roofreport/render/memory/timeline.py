# SPDX-License-Identifier: Apache-2.0
"""The bytes that are alive over the events of a history, a layer a category, as one SVG; phases are marked above."""

from __future__ import annotations

from itertools import groupby

from roofreport import units
from roofreport.memory.snapshot import Snapshot
from roofreport.render.memory.curve import CATEGORIES, Curve, phase_at
from roofreport.render.svg import escape

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


def document(snapshot: Snapshot, drawn: Curve) -> str:
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
