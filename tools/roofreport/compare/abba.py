# SPDX-License-Identifier: Apache-2.0
"""Two programs, or one with two sets of flags, in fresh processes by turns: A B, B A, A B, … The state is on disk, so
that a comparison can be resumed.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from roofreport import units
from roofreport.compare import saved_state
from roofreport.compare.axes import Match
from roofreport.compare.command import Command, Finished, run, sampling_flags
from roofreport.errors import UnusableInputError
from roofreport.io.contract import TIME, Metric
from roofreport.io.load import load
from roofreport.io.reliability import doubts
from roofreport.io.result import Case, Result, State, differences, merged
from roofreport.stats import sequential
from roofreport.stats.places import HANDOVER
from roofreport.stats.sequential import Trial
from roofreport.stats.verdict import Judgment, Verdict
from roofreport.text import shortened

_FILE = "state.json"


@dataclass
class Pair:
    """The cases that both processes ran, and their seconds."""

    cases: list[str]
    seconds: float


@dataclass
class ComparisonState:
    """`key` identifies the comparison."""

    key: str
    cases: list[str]
    max_time: float
    at_once: int  # cases of a process
    seconds: float = 0.0  # of the budget, used up
    pairs: list[Pair] = field(default_factory=list)
    closed: dict[str, list[str]] = field(default_factory=dict)  # case to verdict and note, where times are missing

    def __post_init__(self) -> None:
        if any(name not in self.cases for pair in self.pairs for name in pair.cases):
            raise ValueError("a pair ran unknown cases")
        if self.at_once < 1:
            raise ValueError("a process without cases")
        for verdict, _ in self.closed.values():
            Verdict(verdict)


def output(folder: Path, pair: int, side: str) -> Path:
    return folder / f"{pair:04d}-{side}.json"


# Many short processes carry more information than few long ones: differences between processes are not averaged away
# inside one.
PAIRS_WANTED = 30
# A machine changes within a minute or less, so the two processes of a pair follow each other soon: they run so many
# seconds, with as many of the cases as that allows. Each starts, and measures its roofs, in so many more (two cores of
# a Zen 4, 13 processes a side, 2026-11-29).
_PROCESS_SECONDS = 8.0
_START_SECONDS = 1.7
SHORTEST_SAMPLING = 0.2  # seconds per case; of less, a single roof probe decides
LONGEST_SAMPLING = 0.4
SIDES = ("A", "B")
LABELS = ("base", "new")
AGAIN = "-again"  # of a second process for cases that the first did not measure


@dataclass(frozen=True)
class ComparisonOptions:
    base: Command
    new: Command
    budget: float  # seconds
    folder: Path
    max_time: float | None = None  # seconds of samples per case; None: as the budget allows
    pairs: int | None = None  # most pairs
    match: Match | None = None  # None: cases of the same name
    metric: Metric = TIME


class Abba:
    """One comparison, begun or resumed."""

    def __init__(self, options: ComparisonOptions, say: Callable[[str], None]) -> None:
        self._options = options
        self._say = say
        self._file = options.folder / _FILE
        self._commands = (options.base, options.new)
        # For each side: the work that a case is judged as, and the name of the case.
        self._names = [self._listed(side) for side in range(len(SIDES))]
        self._common = [name for name in self._names[0] if name in self._names[1]]
        self._missing = [name for name in self._names[0] if name not in self._names[1]]
        self._added = [name for name in self._names[1] if name not in self._names[0]]
        if not self._common:
            what = f" that differ in {options.match.text()} alone" if options.match else " in common"
            raise UnusableInputError(f"the two commands have no cases{what}")
        parts = [command.fingerprint() for command in self._commands]
        parts += [*self._common, str(options.budget), str(options.max_time), str(options.pairs)]
        parts += [options.match.text()] if options.match else []
        parts += [] if options.metric is TIME else [options.metric.name]
        self._key = hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:16]
        self._trials = {name: Trial(name, metric=options.metric) for name in self._common}
        # For each side: the rows of each work, process by process.
        self._rows: list[dict[str, list[Case]]] = [{name: [] for name in self._common} for _ in SIDES]
        self._looks = 0
        self._first: Result | None = None

    def run(self) -> list[Judgment]:
        state = saved_state.restore(self._file, ComparisonState)
        if state is None:
            state = self._begin()
        elif state.key != self._key:
            raise UnusableInputError(
                f"{self._options.folder} holds another comparison (other programs, flags, cases or budget);"
                " name another --state, or remove the folder"
            )
        else:
            self._replay(state)
            self._say(f"resumed after {units.counted(len(state.pairs), 'pair')} and {units.clock(state.seconds)}")
        while not self._is_over(state):
            self._pair(state)
        self._final_look(state)
        return self._judgments(state)

    def _listed(self, side: int) -> dict[str, str]:
        names = self._commands[side].cases()
        match = self._options.match
        if match is None:
            return {name: name for name in names}
        return match.works(side, names, self._commands[side].contract())

    def _begin(self) -> ComparisonState:
        """Measures the cost of a process in addition to its samples, then makes the plan."""
        max_time = self._options.max_time
        pilot = self._process(0, 0, self._common, max_time or SHORTEST_SAMPLING, "pilot")
        if pilot.result is None:
            raise UnusableInputError(f"{self._commands[0].text()}: {pilot.how}")
        for case in pilot.result.cases:
            if case.state is not State.MEASURED:
                self._say(f"left out: {case.name} ({case.why_not})")
        measured = sum(case.state is State.MEASURED for case in pilot.result.cases)
        if not measured:
            raise UnusableInputError("BASE measures none of the cases")
        budget = self._options.budget
        at_once = math.ceil(len(self._common) * _PROCESS_SECONDS / max(pilot.seconds, _PROCESS_SECONDS))
        # The pilot is one process, and they are several.
        side = pilot.seconds + _START_SECONDS * (math.ceil(len(self._common) / at_once) - 1)
        shortest = 2 * sequential.MIN_PAIRS * side
        if pilot.seconds + shortest > budget:
            raise UnusableInputError(
                f"one side of {units.counted(len(self._common), 'case')} takes {side:.1f} s, so that"
                f" {sequential.MIN_PAIRS} pairs need --budget={math.ceil((pilot.seconds + shortest) / 60)}min, or fewer"
                " cases"
            )
        if max_time is None:
            # Roof probes take a quarter of the time of the adjacent samples.
            spare = budget / (2 * PAIRS_WANTED) - side
            max_time = SHORTEST_SAMPLING + max(0.0, spare) / (measured * 4 / 3)
            max_time = round(min(max_time, LONGEST_SAMPLING), 3)
        state = ComparisonState(self._key, list(self._common), max_time, at_once, pilot.seconds)
        judged_as = {name: work for work, name in self._names[0].items()}
        for case in pilot.result.cases:
            if case.state is not State.MEASURED and case.name in judged_as:
                _close(state, judged_as[case.name], Verdict.MISSING, f"not measured: base: {case.why_not}")
        saved_state.save(self._file, state)
        self._say(f"{units.counted(measured, 'case')}, {max_time:g} s of samples each, {units.clock(budget)} in all")
        return state

    def _process(self, pair: int, side: int, names: list[str], max_time: float, label: str) -> Finished:
        here = [self._names[side][name] for name in names]
        command = self._commands[side].with_flags(*sampling_flags(here, max_time))
        folder = self._options.folder
        folder.mkdir(parents=True, exist_ok=True)
        path = output(folder, pair, label)
        finished = run(command, path)
        if finished.result is None:
            path.unlink(missing_ok=True)  # it may end in the middle
            return replace(finished, how=f"process {label} of pair {pair}: {finished.how}")
        if self._first is None:
            self._first = finished.result
        mixed = differences(self._first, finished.result, with_host=True)
        if mixed:
            raise UnusableInputError(f"the machine changed under the comparison ({', '.join(mixed)})")
        return finished

    def _persistent_process(self, pair: int, side: int, part: int, names: list[str], max_time: float) -> Finished:
        """A process, and a second one for the cases that it did not measure: one bad moment must not decide."""
        label, again = _labels(side, part)
        for stale in (label, again):
            output(self._options.folder, pair, stale).unlink(missing_ok=True)
        first = self._process(pair, side, names, max_time, label)
        if first.result is None:
            return self._process(pair, side, names, max_time, label)
        cases = first.result.merged()
        measured = {name for name, case in cases.items() if case.state is State.MEASURED}
        left = [name for name in names if self._names[side][name] not in measured]
        if left:
            self._say(f"again, as it was not measured: {shortened(', '.join(left), 200)}")
            self._process(pair, side, left, max_time, again)
        return first

    def _cases(self, pair: int, side: int, parts: int) -> dict[str, Case]:
        """The results of one side of a pair; for a case that was run again, the second result."""
        cases: dict[str, Case] = {}
        for label in itertools.chain.from_iterable(_labels(side, part) for part in range(parts)):
            path = output(self._options.folder, pair, label)
            if path.exists():
                cases |= load(path).merged()
        return cases

    def _open(self, state: ComparisonState) -> list[str]:
        return [name for name in self._common if name not in state.closed and self._trials[name].verdict is None]

    def _pair_seconds(self, state: ComparisonState) -> float:
        recent = state.pairs[-3:]
        return max((pair.seconds for pair in recent), default=0.0)

    def _is_over(self, state: ComparisonState) -> bool:
        if not self._open(state):
            return True
        if self._options.pairs is not None and len(state.pairs) >= self._options.pairs:
            return True
        enough = len(state.pairs) >= sequential.MIN_PAIRS
        return enough and state.seconds + self._pair_seconds(state) > self._options.budget

    def _fraction(self, state: ComparisonState) -> float:
        done = state.seconds / self._options.budget
        if self._options.pairs is not None:
            done = max(done, len(state.pairs) / self._options.pairs)
        return min(1.0, done)

    def _pair(self, state: ComparisonState) -> None:
        names = self._open(state)
        number = len(state.pairs)
        order = (0, 1) if number % 2 == 0 else (1, 0)
        start = time.monotonic()
        for (part, few), side in itertools.product(enumerate(_parts(names, state.at_once)), order):
            finished = self._persistent_process(number + 1, side, part, few, state.max_time)
            if finished.result is None:
                if side == 0:
                    raise UnusableInputError(f"{self._commands[0].text()}: {finished.how}")
                # The new program does not survive: it cannot be judged any more.
                for name in few:
                    _close(state, name, Verdict.FAILED, f"new: {finished.how}")
        if not self._open(state):
            saved_state.save(self._file, state)
            return
        self._count(state, Pair(names, time.monotonic() - start))
        saved_state.save(self._file, state)
        self._progress(state)

    def _count(self, state: ComparisonState, pair: Pair) -> None:
        """Adds a pair, whose files are there, and looks if a look is due."""
        state.pairs.append(pair)
        state.seconds += pair.seconds
        self._take(state, len(state.pairs))
        if sequential.is_due(self._looks, self._fraction(state), len(state.pairs)):
            self._look(state, self._fraction(state))

    def _take(self, state: ComparisonState, number: int) -> None:
        """Reads the files of the newest pair into the trials."""
        names = state.pairs[-1].cases
        parts = len(_parts(names, state.at_once))
        groups = [self._cases(number, side, parts) for side in range(len(SIDES))]
        for name in names:
            sides = [group.get(here[name]) for group, here in zip(groups, self._names, strict=True)]
            values = []
            for label, case, rows in zip(LABELS, sides, self._rows, strict=True):
                if case is None or case.state is not State.MEASURED:
                    failed = label == "new" and case is not None and case.state is State.FAILED
                    why = case.why_not if case else "no result"
                    _close(state, name, Verdict.FAILED if failed else Verdict.MISSING, f"{label}: {why}")
                    continue
                value = case.value(self._options.metric.name)
                if value is None or value <= 0:
                    _close(state, name, Verdict.MISSING, f"{label}: no {self._options.metric.name}")
                else:
                    values.append(math.log(value))
                    rows[name].append(case)
            if name not in state.closed:
                trial = self._trials[name]
                trial.base.append(values[0])
                trial.new.append(values[1])
                base, new = (rows[name][-1].value(HANDOVER) for rows in self._rows)
                trial.handovers.append((base, new))

    def _look(self, state: ComparisonState, fraction: float) -> None:
        trials = [trial for trial in self._trials.values() if trial.name not in state.closed]
        if self._options.metric.noisy:
            for trial in (trial for trial in trials if trial.verdict is None and trial.pairs):
                rows = (merged(side[trial.name]) for side in self._rows)
                trial.doubt = doubts(dict(zip(LABELS, rows, strict=True)))
        sequential.look(trials, fraction)
        self._looks += 1

    def _final_look(self, state: ComparisonState) -> None:
        """The last look spends the rest of the error budget."""
        if self._looks < len(sequential.LOOKS) and self._open(state):
            self._look(state, 1.0)

    def _replay(self, state: ComparisonState) -> None:
        """The same looks at the same data give the same decisions."""
        done, state.pairs = state.pairs, []
        seconds, state.seconds = state.seconds, state.seconds - sum(pair.seconds for pair in done)
        for pair in done:
            self._count(state, pair)
        state.seconds = seconds

    def _progress(self, state: ComparisonState) -> None:
        decided = [trial.verdict for trial in self._trials.values() if trial.verdict]
        counts = ", ".join(f"{decided.count(verdict)} {verdict.value}" for verdict in Verdict if verdict in decided)
        left = max(0.0, self._options.budget - state.seconds)
        self._say(
            f"pair {len(state.pairs)}: {len(self._open(state))} open"
            + (f", {counts}" if counts else "")
            + f", at most {units.clock(left)} left"
        )

    def _judgments(self, state: ComparisonState) -> list[Judgment]:
        found = []
        for name in self._common:
            closed = state.closed.get(name)
            found.append(
                Judgment(name, Verdict(closed[0]), note=closed[1]) if closed else self._trials[name].judgment()
            )
        found += [Judgment(name, Verdict.MISSING, note="NEW does not have it") for name in self._missing]
        found += [Judgment(name, Verdict.NEW, note="BASE does not have it") for name in self._added]
        return found


def _labels(side: int, part: int) -> tuple[str, str]:
    """Of a process, and of a second one for what it did not measure."""
    label = f"{SIDES[side]}{part or ''}"
    return label, f"{label}{AGAIN}"


def _parts(names: list[str], at_once: int) -> list[list[str]]:
    return [names[i : i + at_once] for i in range(0, len(names), at_once)]


def _close(state: ComparisonState, name: str, verdict: Verdict, why: str) -> None:
    """The first reason counts."""
    state.closed.setdefault(name, [verdict.value, shortened(why, 300)])
