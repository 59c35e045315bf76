# SPDX-License-Identifier: Apache-2.0
"""A pool of processes recorded in turns: base, base again, and two with a slowdown by an injected delay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The order of one round; the next one runs backwards. What is compared with each other runs next to each other, in the
# order A B B A.
ARMS = ("slow5", "base", "base2", "slow3")
INJECTED = {"slow5": 0.05, "base": 0.0, "base2": 0.0, "slow3": 0.03}


@dataclass(frozen=True)
class Pool:
    """log times, [round, arm, case], and seconds a process."""

    cases: tuple[str, ...]
    log_times: NDArray[np.float64]
    process_seconds: float

    def arm(self, name: str) -> NDArray[np.float64]:
        return self.log_times[:, ARMS.index(name), :]


def order_of(round_: int) -> tuple[str, ...]:
    return ARMS if round_ % 2 == 0 else ARMS[::-1]
