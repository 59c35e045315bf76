# SPDX-License-Identifier: Apache-2.0
"""Synthetic processes with the noise of a shared two-core machine, and a year of nightly runs of them.

Memory bandwidth in two modes that last minutes, neighbors that come and go, bursts, memory layouts that last a process,
and the error of the median inside a process. A year adds what differs between nightly runs (how busy neighbors are, how
often memory is slow), missing runs and cases, and a new driver, with which every series restarts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The order of one round; the next one runs backwards. Cases that are compared with each other run next to each other,
# in the order A B B A.
ARMS = ("slow5", "base", "base2", "slow3")
INJECTED = {"slow5": 0.05, "base": 0.0, "base2": 0.0, "slow3": 0.03}


@dataclass(frozen=True)
class Pool:
    """log times, [round, arm, case], and seconds per process."""

    cases: tuple[str, ...]
    log_times: Floats
    process_seconds: float

    def arm(self, name: str) -> Floats:
        return self.log_times[:, ARMS.index(name), :]


def order_of(round_: int) -> tuple[str, ...]:
    return ARMS if round_ % 2 == 0 else ARMS[::-1]


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
CASE_SECONDS = 6.0  # from the begin of a case to that of the next one
DRIFT_DEVIATION = 0.01  # of the neighbors' load, from one nightly run to the next
DRIFT_NIGHTS = 10.0
LEAN_DEVIATION = 1.0  # of how often memory is slow, as log-odds
LEAN_NIGHTS = 20.0
PROBE_DEVIATION = 0.01  # of the roof measured next to a case
MISSING_NIGHT = 0.03
MISSING_CASE = 0.005
DRIVER_CHANGE = 0.5  # of the year
DRIVER_DEVIATION = 0.04
MEMORY_BOUND = 0.5  # cases that follow the memory's mode so far have memory for a roof


@dataclass(frozen=True)
class Year:
    """[nightly run, process, series]; nan where nothing was measured."""

    sensitivities: Floats  # [series]
    log_times: Floats
    log_rates: Floats  # of the roof next to the case
    driver_night: int
    driver_shift: Floats  # [series], of the times from then on
    drift: Floats  # [nightly run]
    lean: Floats  # [nightly run], the share of slow memory

    @property
    def follows_memory(self) -> NDArray[np.bool_]:
        return self.sensitivities >= MEMORY_BOUND


def wandering(random: np.random.Generator, nights: int, deviation: float, memory: float) -> Floats:
    """A first-order autoregression."""
    keep = math.exp(-1 / memory)
    values = np.empty(nights)
    value = random.normal(0, deviation)
    for night in range(nights):
        value = value * keep + random.normal(0, deviation * math.sqrt(1 - keep**2))
        values[night] = value
    return values


def _state(random: np.random.Generator, steps: int, seconds: float, lean: float) -> tuple[Floats, Floats]:
    """Whether memory is slow, and the neighbors' load, at each step."""
    keep = math.exp(-seconds / LOAD_SECONDS)
    slow = bool(random.random() < lean)
    load = random.normal(0, LOAD_DEVIATION)
    modes, loads = np.empty(steps), np.empty(steps)
    draws, moves = random.random(steps), random.normal(0, LOAD_DEVIATION * math.sqrt(1 - keep**2), steps)
    for step in range(steps):
        leave = 2 * (1 - lean if slow else lean)
        slow ^= bool(draws[step] < leave * seconds / MODE_SECONDS)
        load = load * keep + moves[step]
        modes[step], loads[step] = slow, load
    return modes, loads


def processes(
    random: np.random.Generator, sensitivities: Floats, count: int, seconds: float, drift: float, lean: float
) -> tuple[Floats, Floats]:
    """Logarithms of times and of the roofs' rates of `count` processes one after the other, [process, series]."""
    shape = (count, len(sensitivities))
    modes, loads = (row.reshape(shape) for row in _state(random, count * len(sensitivities), seconds, lean))
    loads = loads + drift
    roof = np.where(sensitivities >= MEMORY_BOUND, 1.0, 0.0)
    times = sensitivities * MODE_RATIO * modes + (0.5 + sensitivities) * loads
    rates = -(roof * MODE_RATIO * modes + (0.5 + roof) * loads)
    times = times + (random.random(shape) < BURST_PROBABILITY) * random.exponential(BURST_MEAN, shape)
    times += (random.random(shape) < ODD_LAYOUT_PROBABILITY) * ODD_LAYOUT
    times += random.normal(0, LAYOUT_DEVIATION, shape) + random.normal(0, SAMPLING_DEVIATION, shape)
    return times, rates + random.normal(0, PROBE_DEVIATION, shape)


def simulated(random: np.random.Generator, series: int, nights: int, a_night: int) -> Year:
    """`a_night` processes of the whole suite one after the other in every nightly run."""
    sensitivities = np.array([SENSITIVITIES[i % len(SENSITIVITIES)] for i in range(series)])
    drift = wandering(random, nights, DRIFT_DEVIATION, DRIFT_NIGHTS)
    lean = 1 / (1 + np.exp(-wandering(random, nights, LEAN_DEVIATION, LEAN_NIGHTS)))
    found = [
        processes(random, sensitivities, a_night, CASE_SECONDS, float(drift[n]), float(lean[n])) for n in range(nights)
    ]
    times, rates = np.array([pair[0] for pair in found]), np.array([pair[1] for pair in found])
    missing = random.random(times.shape) < MISSING_CASE
    missing[random.random(nights) < MISSING_NIGHT] = True
    times[missing] = rates[missing] = np.nan
    driver = int(DRIVER_CHANGE * nights)
    shift = random.normal(0, DRIVER_DEVIATION, series)
    times[driver:] += shift
    return Year(sensitivities, times, rates, driver, shift, drift, lean)


def simulated_pool(random: np.random.Generator, rounds: int, process_seconds: float) -> Pool:
    """Whole rounds of all arms, one after the other."""
    seconds = process_seconds / len(SENSITIVITIES)
    times, _ = processes(random, np.array(SENSITIVITIES), rounds * len(ARMS), seconds, drift=0.0, lean=0.5)
    times = times.reshape(rounds, len(ARMS), -1)
    for round_ in range(1, rounds, 2):
        times[round_] = times[round_, ::-1]
    for position, arm in enumerate(ARMS):
        times[:, position] += np.log1p(INJECTED[arm])
    cases = tuple(f"memory share {share:g} ({i})" for i, share in enumerate(SENSITIVITIES))
    return Pool(cases, times, process_seconds)
