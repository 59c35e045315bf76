# SPDX-License-Identifier: Apache-2.0
"""Synthetic processes with the noise of a shared two-core machine, to choose a statistic before it meets real data.

Memory bandwidth in two modes that last minutes, neighbours that come and go, bursts, memory layouts that last a
process, and the error of the median inside a process.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from roofreport.stats.pool import ARMS, INJECTED, Pool

# How far each case follows the memory's mode: from arithmetic in registers to plain streams.
SENSITIVITIES = (0.0, 0.0, 0.1, 0.2, 0.5, 0.8, 1.0, 1.0, 1.0)
MODE_RATIO = math.log(83 / 52)
MODE_SECONDS = 180.0
LOAD_SECONDS = 40.0
LOAD_DEVIATION = 0.02
BURST_PROBABILITY = 0.04
BURST_MEAN = 0.15
LAYOUT_DEVIATION = 0.012
ODD_LAYOUT_PROBABILITY = 0.08
ODD_LAYOUT = 0.05
SAMPLING_DEVIATION = 0.008


def log_times(random: np.random.Generator, processes: int, process_seconds: float) -> NDArray[np.float64]:
    """[process, case], processes one after the other."""
    cases = len(SENSITIVITIES)
    step = process_seconds / cases
    keep = math.exp(-step / LOAD_SECONDS)
    times = np.empty((processes, cases))
    slow = bool(random.random() < 0.5)
    load = 0.0
    for process in range(processes):
        for case, sensitivity in enumerate(SENSITIVITIES):
            slow ^= bool(random.random() < step / MODE_SECONDS)
            load = load * keep + random.normal(0, LOAD_DEVIATION * math.sqrt(1 - keep**2))
            burst = random.exponential(BURST_MEAN) if random.random() < BURST_PROBABILITY else 0.0
            odd = ODD_LAYOUT if random.random() < ODD_LAYOUT_PROBABILITY else 0.0
            times[process, case] = (
                sensitivity * MODE_RATIO * slow
                + (0.5 + sensitivity) * load
                + burst
                + odd
                + random.normal(0, LAYOUT_DEVIATION)
                + random.normal(0, SAMPLING_DEVIATION)
            )
    return times


def simulated_pool(random: np.random.Generator, rounds: int, process_seconds: float) -> Pool:
    """Whole rounds of all arms, one after the other."""
    times = log_times(random, rounds * len(ARMS), process_seconds).reshape(rounds, len(ARMS), -1)
    for round_ in range(1, rounds, 2):
        times[round_] = times[round_, ::-1]
    for position, arm in enumerate(ARMS):
        times[:, position] += np.log1p(INJECTED[arm])
    cases = tuple(f"memory share {share:g} ({i})" for i, share in enumerate(SENSITIVITIES))
    return Pool(cases, times, process_seconds)
