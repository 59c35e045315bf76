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


NOT_AT_ALL = Follows(0, 0.0)


def fit(logs: NDArray[np.float64], paces: NDArray[np.float64]) -> Follows:
    """`logs` of times, `paces` [process, column]: logarithms of roofs' rates, nan where none was measured."""
    logs, paces = logs[-MOST:], paces[-MOST:]
    known = np.isfinite(logs)
    best, least = NOT_AT_ALL, np.inf
    for column in range(paces.shape[1]):
        both = known & np.isfinite(paces[:, column])
        if both.sum() < max(FEWEST, 0.8 * known.sum()):
            continue
        steadied = logs[both, None] + paces[both, column, None] * SHARES
        scatter = MAD_SCALE * np.median(np.abs(steadied - np.median(steadied, axis=0)), axis=0)
        chosen = int(np.argmin(scatter))
        if scatter[chosen] < least:
            best, least = Follows(column, float(SHARES[chosen])), float(scatter[chosen])
    return best


def steadied(logs: NDArray[np.float64], paces: NDArray[np.float64], follows: Follows) -> NDArray[np.float64]:
    """nan where the pace of a case that follows it is unknown."""
    if follows.share == 0:
        return logs
    column = paces[:, follows.column]
    return np.asarray(logs + follows.share * (column - np.nanmedian(column)))
