# SPDX-License-Identifier: Apache-2.0
"""Where the labels of lines lie in a picture, in pixels: beside their lines, and clear of all else if there is room."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LETTER = 6.6  # approximate width of a character
_ASIDE = 9.5  # from a line to the middle of its label
_CLEAR = 5  # from the middle of a letter to a line
_MARK = 6  # half of its width
_HEIGHT = 13  # of a label
_STEP = 4.0  # between the places that a label may have
_MOST_CROSSED = 0.2  # of the letters of a label that can be read
_OTHER_SIDE = 40.0  # of its line, which is as good as a place that far along it


class Spot(NamedTuple):
    """Of the left end of a label, half way up."""

    x: float
    y: float
    angle: float  # in radians


def is_flat(line: Floats) -> bool:
    return bool(line[0][1] == line[-1][1])


class Labels:
    """`box`: its lower left and upper right corner; `lines`: the points of each; `marks`: the middle of each."""

    def __init__(self, box: Floats, lines: Iterable[Floats], marks: Floats) -> None:
        self._low = box[0]
        self._size = np.ceil(box[1] - box[0]).astype(np.int64)
        # A letter whose middle is at such a pixel lies on a line or a mark, or on another label.
        self._drawn, self._taken = (np.zeros(self._size, dtype=np.bool_) for _ in range(2))
        for start, end in chain.from_iterable(map(pairwise, lines)):
            count = int(math.dist(start, end)) + 2
            self._fill(self._drawn, np.linspace(start, end, count), _CLEAR)
        self._fill(self._drawn, marks.reshape(-1, 2), _CLEAR + _MARK)

    def place(self, text: str, line: Floats, below: bool) -> Spot | None:
        """None where it would leave the box, lie on another label, or be crossed so often that it cannot be read."""
        (dx, dy), total, length = line[-1] - line[0], math.dist(line[0], line[-1]), LETTER * len(text)
        along = np.array([dx, dy]) / max(total, 1e-9)
        aside = _ASIDE * np.array([-along[1], along[0]])
        # A flat one ends at the end of its line, and may begin before it; along a slope it would cross what ends that.
        flat = is_flat(line)
        moves = np.arange(_STEP, total - length + (line[0][0] - self._low[0] if flat else 0.0), _STEP)
        moves, under = (every.ravel() for every in np.meshgrid(moves, [False, True]))
        order = np.argsort(moves + _OTHER_SIDE * (under != below), kind="stable")
        moves, under = moves[order], under[order]
        begins = total - length - moves if flat else moves
        starts = line[0] + np.outer(begins, along) + np.where(under[:, None], -aside, aside)
        letters = starts[:, None] + np.outer(LETTER * np.arange(len(text) + 1), along)
        pixels = (letters - self._low).astype(np.int64)
        inside = ((pixels > _HEIGHT // 2) & (pixels < self._size - _HEIGHT // 2)).all(axis=(1, 2))
        x, y = np.moveaxis(pixels[inside], 2, 0)
        crossed = np.where(self._taken[x, y].any(axis=1), math.inf, self._drawn[x, y].sum(axis=1))
        if not len(crossed) or crossed.min() > _MOST_CROSSED * len(text):
            return None
        best = letters[inside][crossed.argmin()]
        self._fill(self._taken, best, _HEIGHT)
        return Spot(best[0, 0], best[0, 1], math.atan2(dy, dx))

    def _fill(self, pixels: NDArray[np.bool_], points: Floats, reach: int) -> None:
        for x, y in (points - self._low).astype(np.int64):
            pixels[max(0, x - reach) : max(0, x + reach + 1), max(0, y - reach) : max(0, y + reach + 1)] = True
