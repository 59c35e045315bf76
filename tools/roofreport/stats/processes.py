# SPDX-License-Identifier: Apache-2.0
"""What the difference of two sides of processes is worth. All values are logarithms.

Three things have to hold of a difference that is more than noise.

- The ranks: an exact interval for the shift between the sides (Mann and Whitney, Annals of Mathematical Statistics 18,
  1947) excludes 0. It holds for processes of any distribution, also where a program is in one of two states, but needs
  five processes a side, taken in turns: two sides one after the other are but two stretches of time. Fewer processes,
  and such sides, tell something only beside earlier processes of this machine, if they are further apart than those.
- The size: it exceeds what their own scatter explains, and that of this machine's processes, with which it is shrunk as
  in moderated t-tests (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004). The error is one of
  all cases together.
- No two states: no side is in both of the two groups that all processes fall into.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist, fmean, median

from roofreport import units
from roofreport.stats.verdict import find_split

CONFIDENCE = 0.99
# Where nothing is known, a smaller change may be that of two states, or of two hours: single processes of one program
# were seen to differ by a factor of three.
STATES = math.log(4.0)
FEWEST_KNOWN = 8  # degrees of freedom from which a machine's own scatter counts
_EXACT_UP_TO = 40
_CHANGES = 0.1  # of the moves between stretches of time may be those of the program


@dataclass(frozen=True)
class Noise:
    """How one program's processes scatter: their standard deviation, and the degrees of freedom that this is worth."""

    process: float
    freedom: float
    known: int = 0  # processes of this machine that it was taken from; 0: a constant
    reach: float = math.inf  # the widest range of the processes of one stretch of time
    moves: float = math.inf  # and of two that follow each other


# Of one busy two-core machine, for where nothing is known: there, 15 % of pairs of processes differ by above 5 %.
ELSEWHERE = Noise(0.04, 8)


def noise_of(sessions: Sequence[Sequence[float]]) -> Noise:
    """From earlier processes of one program, by stretch of time; ELSEWHERE where they are too few."""
    freedom = sum(len(one) - 1 for one in sessions)
    if freedom < FEWEST_KNOWN:
        return ELSEWHERE
    process = math.sqrt(sum(map(_squares, sessions)) / freedom)
    moves = sorted(_range([*before, *after]) for before, after in pairwise(sessions))
    kept = moves[: len(moves) - int(_CHANGES * len(moves))]
    reach = max(map(_range, sessions))
    return Noise(process, freedom, sum(map(len, sessions)), reach, kept[-1] if len(kept) >= FEWEST_KNOWN else math.inf)


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)


@dataclass(frozen=True)
class Difference:
    effect: float  # the median of the differences of all pairs
    low: float  # exact interval by ranks; nan: too few processes
    high: float
    floor: float  # a smaller one may be noise
    split: str  # the two states that processes of one side are in; empty: they are in none
    doubt: str  # why it shows nothing, whatever its size; empty: it may


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values)


@lru_cache(maxsize=256)
def rank_cut(base: int, new: int) -> int:
    """How many of the ordered differences lie outside of the interval, at either end; 0: all of them are too few."""
    tail = (1 - CONFIDENCE) / 2
    if base + new > _EXACT_UP_TO:
        deviation = math.sqrt(base * new * (base + new + 1) / 12)
        return max(0, math.floor(base * new / 2 + NormalDist().inv_cdf(tail) * deviation))
    # The ways to each number of pairs in the other order: the coefficients of a Gaussian binomial.
    ways = [1] + [0] * (base * new)
    for i in range(1, base + 1):
        for place in range(len(ways) - 1, new + i - 1, -1):
            ways[place] -= ways[place - new - i]
        for place in range(i, len(ways)):
            ways[place] += ways[place - i]
    total, below, cut = math.comb(base + new, base), 0, 0
    for count in ways:
        below += count
        if below > tail * total:
            return cut
        cut += 1
    return cut


def half_width(base: Sequence[float], new: Sequence[float], noise: Noise, cases: int = 1) -> float:
    """Half the width of the interval that holds the difference of two equal sides, in all of so many cases together."""
    # SciPy takes a quarter of a second to import: it is imported on use.
    from scipy.special import stdtrit

    own, squares = len(base) + len(new) - 2, _squares(base) + _squares(new)
    sides = 1 / len(base) + 1 / len(new)
    level = 1 - (1 - CONFIDENCE) / (2 * cases)

    def half(freedom: float, sum_of_squares: float) -> float:
        return float(stdtrit(freedom, level)) * math.sqrt(sum_of_squares / freedom * sides)

    moderated = half(noise.freedom + own, noise.freedom * noise.process**2 + squares)
    # What is known of another machine alone must not make these processes quieter than they are.
    return moderated if noise.known or own < 2 else max(moderated, half(own, squares))


def _trend(base: Sequence[float], new: Sequence[float]) -> float:
    """The part of the difference of two sides, one after the other, that goes on from the trend inside of them."""
    places = [[place - (len(side) - 1) / 2 for place in range(len(side))] for side in (base, new)]
    squares = sum(place**2 for side in places for place in side)
    if len(base) + len(new) < 6 or not squares:
        return 0.0
    slope = sum(
        place * value for side in zip(places, (base, new), strict=True) for place, value in zip(*side, strict=True)
    )
    return slope / squares * (len(base) + len(new)) / 2


def difference(
    base: Sequence[float], new: Sequence[float], noise: Noise = ELSEWHERE, in_turns: bool = False, cases: int = 1
) -> Difference:
    """The processes of each side in the order in which they ran. `cases`: how many are compared together."""
    apart = sorted(after - before for before in base for after in new)
    effect = median(apart)
    cut = rank_cut(len(base), len(new))
    low, high = (apart[cut - 1], apart[-cut]) if cut else (math.nan, math.nan)
    floor, split = half_width(base, new, noise, cases), _split(base, new)
    doubt = mixed(base, new)
    if cut and in_turns:
        return Difference(effect, low, high, floor, split, doubt)
    chances = math.comb(len(base) + len(new) + noise.known, min(len(base), len(new)))
    least = noise.reach if in_turns else max(noise.reach, noise.moves)
    is_known = 2 / chances <= 1 - CONFIDENCE and math.isfinite(least)
    floor = max(floor, least if is_known else STATES)
    trend = 0.0 if in_turns else _trend(base, new)
    if not doubt and abs(effect) <= floor and not is_known:
        sides = "the sides were not taken in turns" if cut else f"{len(base)} and {len(new)} processes are few"
        doubt = f"{sides}: they may be two states of one program"
    elif not doubt and abs(effect - trend) <= floor < abs(effect):
        doubt = "the processes drift as much"
    return Difference(effect, low, high, floor, split, doubt)


def mixed(base: Sequence[float], new: Sequence[float]) -> str:
    """Why two sides are in no order, by their processes alone; empty where one is ahead."""
    apart, cut = sorted(after - before for before in base for after in new), rank_cut(len(base), len(new))
    inner, outer = (apart[cut - 1], apart[-cut]) if cut else (apart[0], apart[-1])
    return _split(base, new) or ("their processes overlap" if inner <= 0 <= outer else "")


def _split(base: Sequence[float], new: Sequence[float]) -> str:
    found = find_split([math.exp(value) for value in (*base, *new)])
    if found is None:
        return ""
    border = math.log(min(found.slow))
    if not any(min(side) < border <= max(side) for side in (base, new)):
        return ""
    groups = f"{len(found.fast)} and {len(found.slow)} of {len(base) + len(new)}"
    return f"processes split: {groups}, {units.times(median(found.slow) / median(found.fast))} apart"
