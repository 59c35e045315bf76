# SPDX-License-Identifier: Apache-2.0
"""Records a pool of processes on this machine: tools/study error_rate record."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from roofreport import files, units
from roofreport.compare.command import Command, sampling_flags
from roofreport.compare.process import Finished, run
from roofreport.errors import UnusableInputError
from roofreport.io import strict_json
from roofreport.io.load import load
from roofreport.io.renames import today
from roofreport.io.result import State, merged
from roofreport.io.source import read_text
from roofreport.stats.pool import ARMS, INJECTED, Pool, order_of

_DELAY_FLAG = "--inject_delay"
_PLAN = "plan.json"
_ATTEMPTS = 3
_SHORTEST_SAMPLING = 0.02
_LONGEST_SAMPLING = 0.4
# Roof probes take about a quarter of the time of samples beside it, and the warm-up takes some as well.
_SAMPLING_COST = 1.6


@dataclass
class Plan:
    """What is recorded. A recording goes on with the plan that it began with."""

    fingerprint: str
    cases: list[str]
    flags: list[str]
    max_time: float
    rounds: int


def _file(folder: Path, round_: int, arm: str) -> Path:
    return folder / f"{round_:04d}-{arm}.json"


def _process(command: Command, plan: Plan, arm: str, out: Path) -> Finished:
    flags = [*sampling_flags(plan.cases, plan.max_time), *plan.flags]
    if INJECTED[arm] > 0:
        flags.append(f"{_DELAY_FLAG}={INJECTED[arm]:g}")
    finished = Finished(None, 0.0)
    for _ in range(_ATTEMPTS):
        finished = run(command.with_flags(*flags), out)
        if finished.result is not None and all(case.state is State.MEASURED for case in finished.result.cases):
            return finished
        out.unlink(missing_ok=True)
    raise UnusableInputError(f"{arm}: {finished.how or 'a case was skipped or failed'} ({_ATTEMPTS} times)")


def make_plan(command: Command, cases: list[str], flags: list[str], folder: Path, seconds: float, rounds: int) -> Plan:
    """Samples as long as the time allows, after a process that tells what one costs beside them."""
    plan = Plan(command.fingerprint(), cases, flags, _SHORTEST_SAMPLING, rounds)
    folder.mkdir(parents=True, exist_ok=True)
    pilot = _process(command, plan, "slow5", folder / "pilot.json")
    share = seconds / (rounds * len(ARMS))
    if pilot.seconds > share:
        raise UnusableInputError(
            f"a process of {len(cases)} cases takes {pilot.seconds:.1f} s, and {rounds} rounds of {len(ARMS)} in"
            f" {units.clock(seconds)} leave {share:.1f} s for each; name fewer or smaller cases with --filter"
        )
    spare = (share - pilot.seconds) / (_SAMPLING_COST * len(cases))
    plan.max_time = round(min(_LONGEST_SAMPLING, _SHORTEST_SAMPLING + spare), 3)
    files.write_text(folder / _PLAN, json.dumps(asdict(plan), indent=1))
    return plan


def read_plan(folder: Path) -> Plan | None:
    path = folder / _PLAN
    if not path.exists():
        return None
    try:
        plan = Plan(**strict_json.parse(read_text(path)))
        if not isinstance(plan.rounds, int) or not all(isinstance(name, str) for name in plan.cases):
            raise ValueError("its fields are of other kinds")
        return plan
    except (ValueError, TypeError) as error:
        raise UnusableInputError(f"{path} is damaged: {error}") from error


def record(command: Command, plan: Plan, folder: Path, seconds: float, say: Callable[[str], None]) -> None:
    """Goes on until the plan's rounds or the seconds are used up. What is there already is kept."""
    if plan.fingerprint != command.fingerprint():
        raise UnusableInputError(f"{folder} was begun with another binary or other flags")
    start = time.monotonic()
    for round_ in range(plan.rounds):
        missing = [arm for arm in order_of(round_) if not _file(folder, round_, arm).exists()]
        if not missing:
            continue
        if time.monotonic() - start > seconds:
            say("the time is used up; the same command goes on from here")
            return
        # A round is taken in one go, or the processes of a pair would be minutes apart.
        begun = time.monotonic()
        for arm in order_of(round_):
            _process(command, plan, arm, _file(folder, round_, arm))
        used = time.monotonic() - begun
        say(f"round {round_ + 1} of {plan.rounds}: {used:.1f} s, {units.clock(time.monotonic() - start)} so far")


def read(folder: Path) -> Pool:
    """Whole rounds, in order."""
    plan = read_plan(folder)
    if plan is None:
        raise UnusableInputError(f"{folder}: no recording (it has no {_PLAN})")
    rounds = []
    changed: list[float] = []
    for round_ in range(plan.rounds):
        files = [_file(folder, round_, arm) for arm in ARMS]
        if not all(path.exists() for path in files):
            break
        rows = []
        for path in files:
            result = load(path)
            groups = result.by_name()
            names = [name if name in groups else today(name, result.contract)[0] for name in plan.cases]
            cases = [merged(groups[name]) for name in names if name in groups]
            if len(cases) < len(names) or not all(case.state is State.MEASURED for case in cases):
                raise UnusableInputError(f"{path}: lacks a case of the plan")
            rows.append([math.log(case.seconds) for case in cases])
        changed += sorted(path.stat().st_mtime for path in files)
        rounds.append(rows)
    if len(rounds) < 2:
        raise UnusableInputError(f"{folder}: fewer than two whole rounds")
    # Files are written as processes end, so that the gaps are their times; pauses between sessions are no part of them.
    process_seconds = float(np.median(np.diff(np.sort(changed))))
    return Pool(tuple(plan.cases), np.array(rounds), process_seconds)
