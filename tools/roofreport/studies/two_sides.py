# SPDX-License-Identifier: Apache-2.0
"""How often compare and abba call a difference that is not there, and find one that is, on processes that are quiet, in
two states, heavy-tailed or drifting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

from roofreport.compare import comparison, machine_noise
from roofreport.compare.machine_noise import NOTHING, Known
from roofreport.io.contract import TIME
from roofreport.io.result import Case, Result, State
from roofreport.stats.verdict import Verdict
from roofreport.studies import noise
from roofreport.studies.error_rate import window_verdicts
from roofreport.studies.noise import Floats

CASES = 8
CHANGE = 0.10
MOST_FALSE = 0.01  # of comparisons of a program with itself: those with any false call
PAIRS = 20
SESSIONS, A_SESSION = 12, 5  # earlier processes of the same machine
_A_MACHINE = 20  # comparisons of one machine, whose earlier processes are the same
_A_CHANGE = 4  # comparisons of a program with itself for one with a changed program
_CALLS = (Verdict.SLOWER, Verdict.FASTER)
_FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)

# Logarithms of times, [process, case], of processes one after another.
Processes = Callable[[np.random.Generator, int], Floats]


def _white(random: np.random.Generator, count: int, deviation: float = 0.01) -> Floats:
    return random.normal(0, deviation, (count, CASES))


def _two_states(random: np.random.Generator, count: int, slow: float) -> Floats:
    """As a warm copy of 8 MiB: a process takes 104 µs or 200."""
    return (random.random((count, CASES)) < slow) * math.log(200 / 104) + _white(random, count)


def _heavy(random: np.random.Generator, count: int) -> Floats:
    return 0.02 * random.standard_t(2, (count, CASES))


def _bursts(random: np.random.Generator, count: int) -> Floats:
    shape = (count, CASES)
    return (random.random(shape) < 0.2) * random.exponential(0.2, shape) + _white(random, count)


def _wandering(random: np.random.Generator, count: int) -> Floats:
    """By 3 % within some ten processes."""
    columns = [noise.wandering(random, count, 0.03, 10.0) for _ in range(CASES)]
    return np.column_stack(columns) + _white(random, count)


def _trend(random: np.random.Generator, count: int) -> Floats:
    """Up or down by up to 10 % within twelve processes."""
    return np.outer(np.arange(count) / 12, random.uniform(-0.1, 0.1, CASES)) + _white(random, count)


def _shared(random: np.random.Generator, count: int) -> Floats:
    """A shared machine whose memory has two speeds, as in the simulated year."""
    sensitivities = np.array(noise.SENSITIVITIES[:CASES])
    return noise.processes(random, sensitivities, count, 3.0, drift=0.0, lean=0.5)[0]


KINDS: dict[str, Processes] = {
    "quiet, 1 %": _white,
    "two states, half and half": lambda random, count: _two_states(random, count, 0.5),
    "two states, one in ten": lambda random, count: _two_states(random, count, 0.1),
    "heavy tails": _heavy,
    "bursts": _bursts,
    "wandering": _wandering,
    "trend": _trend,
    "shared memory": _shared,
}


@dataclass(frozen=True)
class Design:
    name: str
    a_side: int
    in_turns: bool
    is_known: bool = False  # whether earlier processes of the machine are


DESIGNS = (
    Design("1:1", 1, False),
    Design("3:3", 3, False),
    Design("6:6", 6, False),
    Design("6:6 turns", 6, True),
    Design("3:3 known", 3, False, True),
    Design("6:6 known", 6, False, True),
)
ABBA = f"abba, {PAIRS} pairs"


def _results(logs: Floats, minute: int) -> list[Result]:
    """A process every minute."""

    def of(process: int) -> Result:
        row = zip(_NAMES, np.exp(logs[process]).tolist(), strict=True)
        cases = tuple(Case(name, 0, State.MEASURED, seconds=1e-4 * time) for name, time in row)
        date = (_FIRST + timedelta(minutes=minute + process)).isoformat()
        return Result(Path("simulated"), {}, cases, date=date)

    return [of(process) for process in range(len(logs))]


_NAMES = tuple(f"case/n:{number}" for number in range(CASES))


def known(random: np.random.Generator, kind: Processes) -> Known:
    """Stretches of time a day apart, each of its own."""
    earlier = [_results(kind(random, A_SESSION), -(1 + day) * 24 * 60) for day in range(SESSIONS)]
    return machine_noise.of_results([result for session in earlier for result in session], TIME)


def calls(random: np.random.Generator, kind: Processes, design: Design, changed: int, earlier: Known) -> list[bool]:
    """Whether each case is called, of which the first `changed` take longer by CHANGE on the new side."""
    logs = kind(random, 2 * design.a_side)
    is_new = np.arange(len(logs)) % 4 % 3 > 0 if design.in_turns else np.arange(len(logs)) >= design.a_side
    logs[is_new, :changed] += math.log1p(CHANGE)
    processes = _results(logs, 0)
    base, new = ([one for one, is_in in zip(processes, is_new == side, strict=True) if is_in] for side in (False, True))
    verdicts = {one.name: one.verdict for one in comparison.compare(base, new, known=earlier)}
    return [verdicts[name] in _CALLS for name in _NAMES]


def abba_calls(random: np.random.Generator, kind: Processes, changed: int) -> list[bool]:
    pairs = kind(random, 2 * PAIRS).reshape(PAIRS, 2, CASES)
    pairs[1::2] = pairs[1::2, ::-1]
    pairs[:, 1, :changed] += math.log1p(CHANGE)
    return [verdict in _CALLS for verdict in window_verdicts(pairs[:, 0], pairs[:, 1], True)[0]]


@dataclass(frozen=True)
class Share:
    false: float  # of the comparisons of a program with itself that call any case
    found: float  # of the changed cases, one in each comparison


def share(seed: int, kind: str, design: Design | None, comparisons: int) -> Share:
    """`design` None: abba."""
    random = np.random.default_rng([seed, list(KINDS).index(kind), DESIGNS.index(design) if design else len(DESIGNS)])
    processes = KINDS[kind]
    false, found, earlier = [], [], NOTHING
    for number in range(comparisons):
        if design and design.is_known and number % _A_MACHINE == 0:
            earlier = known(random, processes)
        for changed in (0, 1) if number % _A_CHANGE == 0 else (0,):
            if design is None:
                called = abba_calls(random, processes, changed)
            else:
                called = calls(random, processes, design, changed, earlier)
            if changed:
                found.append(called[0])
            else:
                false.append(any(called))
    return Share(sum(false) / len(false), sum(found) / len(found))


def table(seed: int, comparisons: int) -> tuple[list[str], bool]:
    """Lines, and whether no share of false calls is beyond MOST_FALSE."""
    designs: Sequence[Design | None] = (*DESIGNS, None)
    lines = ["".join([f"{'false / found':<27}", *(f"{one.name if one else ABBA:>16}" for one in designs)])]
    worst = 0.0
    for kind in KINDS:
        shares = [share(seed, kind, design, comparisons) for design in designs]
        worst = max(worst, *(one.false for one in shares))
        figures = (f"{100 * one.false:.1f} / {100 * one.found:.0f} %" for one in shares)
        lines.append("".join([f"{kind:<27}", *(f"{text:>16}" for text in figures)]))
    return lines, worst <= MOST_FALSE
