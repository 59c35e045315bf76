# SPDX-License-Identifier: Apache-2.0
"""Where the labels of lines lie in a picture, in pixels: beside their lines, and clear of all else if there is room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LETTER = 6.3  # approximate width of a character
_HEIGHT = 13.0
_ASIDE = _HEIGHT / 2 + 3  # from a line to the middle of its label
_MARK = 6.0  # half of its width
_STEP = 4.0  # between the places that a label may have
_OTHER_SIDE = 40.0  # of its line, which is as good as a place that far along it


class Spot(NamedTuple):
    """Of the left end of a label, half way up."""

    x: float
    y: float
    angle: float  # in radians


def is_flat(line: Floats) -> bool:
    return bool(line[0][1] == line[-1][1])


def _distances(points: Floats, starts: Floats, ends: Floats) -> Floats:
    """Of each point from the nearest of some segments."""
    along = ends - starts
    share = np.einsum("psx,sx->ps", points[:, None] - starts, along) / np.maximum((along**2).sum(axis=1), 1e-9)
    apart = points[:, None] - starts - np.clip(share, 0.0, 1.0)[:, :, None] * along
    return np.asarray(np.sqrt((apart**2).sum(axis=2)).min(axis=1, initial=math.inf))


class Labels:
    """`box`: its lower left and upper right corner; `lines`: the points of each; `marks`: the middle of each."""

    def __init__(self, box: Floats, lines: Sequence[Floats], marks: Floats) -> None:
        self._low, self._high = box[0] + _HEIGHT / 2, box[1] - _HEIGHT / 2
        self._starts = np.concatenate([np.empty((0, 2)), *(line[:-1] for line in lines)])
        self._ends = np.concatenate([np.empty((0, 2)), *(line[1:] for line in lines)])
        self._marks = marks.reshape(-1, 2)
        self._taken = np.empty((0, 2))

    def place(self, text: str, line: Floats, below: bool) -> Spot | None:
        """None where it would leave the box or lie on another label."""
        (dx, dy), steps = line[-1] - line[0], np.arange(len(text) + 1)[:, None]
        total, length = math.hypot(dx, dy), LETTER * len(text)
        along = np.array([dx, dy]) / max(total, 1e-9)
        aside = _ASIDE * np.array([-along[1], along[0]])
        # A flat one ends at the end of its line, and may begin before it; along a slope it would cross what ends that.
        flat = is_flat(line)
        room = total - length + (line[0][0] - self._low[0] if flat else 0.0)
        places = ((move, under) for move in np.arange(_STEP, room, _STEP) for under in (False, True))
        least, best = math.inf, None
        for move, under in sorted(places, key=lambda one: one[0] + _OTHER_SIDE * (one[1] != below)):
            start = line[0] + (total - length - move if flat else move) * along + (-aside if under else aside)
            letters = start + LETTER * steps * along
            crossed = self._crossed(letters) if self._is_free(letters) else math.inf
            if crossed < least:
                least, best = crossed, letters
            if not least:
                break
        if best is None:
            return None
        self._taken = np.concatenate([self._taken, best])
        return Spot(best[0, 0], best[0, 1], math.atan2(dy, dx))

    def _is_free(self, letters: Floats) -> bool:
        inside = (letters >= self._low).all() and (letters <= self._high).all()
        return bool(inside and (_distances(letters, self._taken, self._taken) > _HEIGHT).all())

    def _crossed(self, letters: Floats) -> int:
        """How many letters lie on lines or marks."""
        on_lines = _distances(letters, self._starts, self._ends) < _HEIGHT / 2
        on_marks = _distances(letters, self._marks, self._marks) < _HEIGHT / 2 + _MARK
        return int((on_lines | on_marks).sum())
