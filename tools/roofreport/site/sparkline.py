# SPDX-License-Identifier: Apache-2.0
"""A series as a line as high as a word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from roofreport.render.markup import Markup
from roofreport.site.data import levels

WIDTH, HEIGHT = 120, 26
_MARGIN = 3.0
_MOST_POINTS = 60
# Smaller changes than this do not fill the height: noise would look like news.
_LEAST_SPAN = 0.04


def _thinned(values: Sequence[float]) -> list[float]:
    """As many as the width has room for; a median of each stretch keeps levels and drops outliers."""
    if len(values) <= _MOST_POINTS:
        return list(values)
    edges = [round(i * len(values) / _MOST_POINTS) for i in range(_MOST_POINTS + 1)]
    return [sorted(values[start:end])[(end - start) // 2] for start, end in pairwise(edges)]


def svg(values: Sequence[float | None]) -> Markup:
    """Decoration: what it shows is in words beside it."""
    logs = _thinned([math.log(value) for value in values if value is not None and levels.usable(value)])
    if len(logs) < 2:
        return Markup("")
    middle = (min(logs) + max(logs)) / 2
    span = max(max(logs) - min(logs), _LEAST_SPAN)
    step = (WIDTH - 2 * _MARGIN) / (len(logs) - 1)
    points = [
        (_MARGIN + i * step, HEIGHT / 2 - (log - middle) / span * (HEIGHT - 2 * _MARGIN)) for i, log in enumerate(logs)
    ]
    path = " ".join(f"{x:.4g},{y:.3g}" for x, y in points)
    x, y = points[-1]
    return Markup(
        f'<svg class="spark" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f'<polyline points="{path}"/><circle cx="{x:.4g}" cy="{y:.3g}" r="2.4"/></svg>'
    )
