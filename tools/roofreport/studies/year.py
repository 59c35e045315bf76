# SPDX-License-Identifier: Apache-2.0
"""A synthetic year of nights on a shared two-core machine, with the noise that noise_model gives to processes.

To it come what differs between nights (how busy neighbours are, how often memory is slow), what is missing, and a new
driver, with which every series begins anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofreport.stats import noise_model as noise

Floats = NDArray[np.float64]

CASE_SECONDS = 6.0  # from the begin of a case to that of the next one
DRIFT_DEVIATION = 0.01  # of the neighbours' load, from night to night
DRIFT_NIGHTS = 10.0
LEAN_DEVIATION = 1.0  # of how often memory is slow, as log-odds
LEAN_NIGHTS = 20.0
PROBE_DEVIATION = 0.01  # of the roof measured beside a case
MISSING_NIGHT = 0.03
MISSING_CASE = 0.005
DRIVER_CHANGE = 0.5  # of the year
DRIVER_DEVIATION = 0.04
MEMORY_BOUND = 0.5  # cases that follow the memory's mode so far have memory for a roof


@dataclass(frozen=True)
class Year:
    """[night, process, series]; nan where nothing was measured."""

    sensitivities: Floats  # [series]
    log_times: Floats
    log_rates: Floats  # of the roof beside the case
    driver_night: int
    driver_shift: Floats  # [series], of the times from then on
    drift: Floats  # [night]
    lean: Floats  # [night], the share of slow memory

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
    """Whether memory is slow, and the neighbours' load, at each step."""
    keep = math.exp(-seconds / noise.LOAD_SECONDS)
    slow = bool(random.random() < lean)
    load = random.normal(0, noise.LOAD_DEVIATION)
    modes, loads = np.empty(steps), np.empty(steps)
    draws, moves = random.random(steps), random.normal(0, noise.LOAD_DEVIATION * math.sqrt(1 - keep**2), steps)
    for step in range(steps):
        leave = 2 * (1 - lean if slow else lean)
        slow ^= bool(draws[step] < leave * seconds / noise.MODE_SECONDS)
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
    times = sensitivities * noise.MODE_RATIO * modes + (0.5 + sensitivities) * loads
    rates = -(roof * noise.MODE_RATIO * modes + (0.5 + roof) * loads)
    times = times + (random.random(shape) < noise.BURST_PROBABILITY) * random.exponential(noise.BURST_MEAN, shape)
    times += (random.random(shape) < noise.ODD_LAYOUT_PROBABILITY) * noise.ODD_LAYOUT
    times += random.normal(0, noise.LAYOUT_DEVIATION, shape) + random.normal(0, noise.SAMPLING_DEVIATION, shape)
    return times, rates + random.normal(0, PROBE_DEVIATION, shape)


def simulated(random: np.random.Generator, series: int, nights: int, a_night: int) -> Year:
    """`a_night` processes of the whole suite one after the other every night."""
    sensitivities = np.array([noise.SENSITIVITIES[i % len(noise.SENSITIVITIES)] for i in range(series)])
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
