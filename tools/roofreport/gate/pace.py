# SPDX-License-Identifier: Apache-2.0
"""How far a case follows the pace of its machine, and its times as they were had the pace stayed the same.

A shared machine's memory is now slow, now fast. The roofs that a run measures beside its cases tell which: a stream
follows them in full, a product of matrices hardly. How far a case does is read from its own history, as the share of
the roof's moves that leaves its times the least scattered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofreport.gate.fence import MAD_SCALE

SHARES = np.linspace(0.0, 1.0, 11)
FEWEST = 10  # processes that a share is read from
MOST = 160


class Follows(NamedTuple):
    column: int  # of the paces
    share: float  # of their moves: 0 not at all, 1 in full
    level: float  # of the paces: their median, which times are taken to


NOT_AT_ALL = Follows(0, 0.0, 0.0)


def fit(logs: NDArray[np.float64], paces: NDArray[np.float64]) -> Follows:
    """`logs` of times, `paces` [process, column]: logarithms of roofs' rates, nan where none was measured."""
    measured = np.flatnonzero(np.isfinite(logs))[-MOST:]
    logs, paces = logs[measured], paces[measured]
    best, least = NOT_AT_ALL, np.inf
    for column in range(paces.shape[1]):
        both = np.isfinite(paces[:, column])
        if both.sum() < max(FEWEST, 0.8 * len(logs)):
            continue
        steadied = logs[both, None] + paces[both, column, None] * SHARES
        scatter = MAD_SCALE * np.median(np.abs(steadied - np.median(steadied, axis=0)), axis=0)
        chosen = int(np.argmin(scatter))
        if scatter[chosen] < least:
            level = float(np.median(paces[both, column]))
            best, least = Follows(column, float(SHARES[chosen]), level), float(scatter[chosen])
    return best


def beside(rates: NDArray[np.float64], follows_memory: NDArray[np.bool_]) -> NDArray[np.float64]:
    """[process, case]: of the nearest case of the same process whose roof is memory, in the order that they ran in."""
    found = np.full_like(rates, np.nan)
    places = np.arange(rates.shape[1])
    for process, row in enumerate(rates):
        known = np.flatnonzero(np.isfinite(row) & follows_memory)
        if len(known):
            right = np.clip(np.searchsorted(known, places), 0, len(known) - 1)
            left = np.maximum(right - 1, 0)
            nearer = np.where(np.abs(known[left] - places) <= np.abs(known[right] - places), left, right)
            found[process] = row[known[nearer]]
    return found


def steadied(logs: NDArray[np.float64], paces: NDArray[np.float64], follows: Follows) -> NDArray[np.float64]:
    """nan where the pace of a case that follows it is unknown."""
    if follows.share == 0:
        return logs
    return np.asarray(logs + follows.share * (paces[:, follows.column] - follows.level))
