# SPDX-License-Identifier: Apache-2.0
"""Compares existing results, case by case.

The sample is the process: repetitions inside one process share its memory layout and its minute, so that they carry no
information about the next process. With few processes per side their scatter cannot be estimated from them alone, so it
is shrunk towards the typical scatter of processes on a shared machine, as in moderated t-tests (Smyth, Statistical
Applications in Genetics and Molecular Biology 3, 2004). Two sides that were not taken in turns differ by the hour as
well, which no number of processes averages away. Rows that call themselves noisy, or that have too few samples, show
what else ran at their time rather than the program: they get no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from roofreport.io.contract import TIME, Metric
from roofreport.io.reliability import doubt
from roofreport.io.result import Case, Result, State, merged
from roofreport.stats.verdict import Judgment, Split, Verdict, find_split, relative

CONFIDENCE = 0.99
# Scatter of a case's median between processes, as a standard deviation of logarithms, and how many degrees of freedom
# of observation that knowledge is worth. On a busy two-core machine, 15 % of pairs of processes differ by above 5 %.
PROCESS_DEVIATION = 0.04
PROCESS_FREEDOM = 8
# The same between two stretches of time.
SESSION_DEVIATION = 0.03
# The change minus the roof's own change has to be at least this share of the floor.
UNEXPLAINED_SHARE = 0.5


@dataclass(frozen=True)
class Side:
    """One case on one side of a comparison: one value per process."""

    values: list[float]
    roof_seconds: list[float]  # time allowed by the roof next to the case, up to a constant factor; empty if unknown
    within: float = 0.0  # the widest range of the repetitions of a process, in logarithms
    split: Split | None = None  # of those repetitions
    doubt: str = ""  # why they support no verdict


def _roof_seconds(case: Case) -> float | None:
    """From the counters alone: proportional to the time at the roof, for cases that do the same work."""
    for name in ("FLOP/s", "bytes/s"):
        rate, roof = case.counters.get(name, 0.0), case.counters.get("roof", 0.0)
        if rate > 0 and roof > 0 and 0 < roof / rate < math.inf:
            return roof / rate
    return None


def _values(cases: Sequence[Case], metric: str) -> list[float]:
    return [value for case in cases if (value := case.value(metric)) is not None]


def _side(processes: Sequence[Sequence[Case]], metric: str) -> Side:
    """The side of a comparison from the measured repetitions of each process."""
    cases = [merged(list(repetitions)) for repetitions in processes]
    roofs = [seconds for case in cases if (seconds := _roof_seconds(case)) is not None]
    repetitions = [values for one in processes if len(values := _values(one, metric)) > 1 and min(values) > 0]
    within = max((math.log(max(values) / min(values)) for values in repetitions), default=0.0)
    found = next((found for values in repetitions if (found := find_split(values))), None)
    why = doubt(merged(cases))
    return Side(_values(cases, metric), roofs if len(roofs) == len(cases) else [], within, found, why)


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values)


def half_width(base: Sequence[float], new: Sequence[float], in_turns: bool) -> float:
    """Half the width of the confidence interval of the difference of two sides, given as logarithms."""
    freedom = len(base) + len(new) - 2
    pooled = PROCESS_FREEDOM * PROCESS_DEVIATION**2 + _squares(base) + _squares(new)
    variance = pooled / (PROCESS_FREEDOM + freedom) * (1 / len(base) + 1 / len(new))
    if not in_turns:
        variance += 2 * SESSION_DEVIATION**2
    # SciPy takes a quarter of a second to import: it is imported on use.
    from scipy.special import stdtrit

    return float(stdtrit(PROCESS_FREEDOM + freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(variance)


def in_turns(base: Sequence[Result], new: Sequence[Result]) -> bool:
    """Whether the processes of both sides alternated, judging by their dates: at least every fourth is a change."""
    dated = [(result.date, side) for side, results in enumerate((base, new)) for result in results]
    if len(base) < 4 or len(new) < 4 or not all(date for date, _ in dated):
        return False
    sides = [side for _, side in sorted(dated)]
    changes = sum(a != b for a, b in pairwise(sides))
    return changes >= len(sides) / 4


def _explained(effect: float, base: Side, new: Side) -> float:
    """The part of an effect that the roof next to the case went through as well."""
    if not base.roof_seconds or not new.roof_seconds:
        return 0.0
    move = math.log(median(new.roof_seconds)) - math.log(median(base.roof_seconds))
    return math.copysign(min(abs(move), abs(effect)), effect) if move * effect > 0 else 0.0


def _exact(name: str, base: float, new: float, metric: Metric) -> Judgment:
    """A metric that does not follow the clock."""
    change = (new - base) / abs(base) if base else (0.0 if new == base else math.inf)
    verdict = Verdict.SAME
    if abs(change) > metric.practical:
        verdict = Verdict.SLOWER if metric.worse(change) else Verdict.FASTER
    return Judgment(name, verdict, change, change, change, base, new, floor=metric.practical)


def _judge(name: str, base: Side, new: Side, metric: Metric, turns: bool) -> Judgment:
    base_median, new_median = median(base.values), median(new.values)
    if not metric.noisy or min(base.values + new.values) <= 0:
        return _exact(name, base_median, new_median, metric)
    logs = [[math.log(value) for value in side.values] for side in (base, new)]
    effect = math.log(new_median) - math.log(base_median)
    doubts = [f"{label}: {side.doubt}" for label, side in (("base", base), ("new", new)) if side.doubt]
    if doubts:
        change = relative(effect)
        return Judgment(name, Verdict.AMBIGUOUS, change, base=base_median, new=new_median, note="; ".join(doubts))
    if sorted(base.values) == sorted(new.values):
        return Judgment(name, Verdict.SAME, 0.0, 0.0, 0.0, base_median, new_median, "the same figures", 0.0)
    half = half_width(logs[0], logs[1], turns)
    if min(map(len, logs)) == 1:
        # One process is in one of the states that its repetitions go through, and the next in another.
        half = math.hypot(half, base.within, new.within)
    floor = max(half, math.log1p(metric.practical))
    apart = [f"{side} repetitions split: {s.split.text()}" for side, s in (("base", base), ("new", new)) if s.split]
    note = "; ".join(apart if metric is TIME else [])
    verdict = Verdict.AMBIGUOUS
    if abs(effect) > floor:
        remaining = effect - _explained(effect, base, new)
        if abs(remaining) >= UNEXPLAINED_SHARE * floor:
            verdict = Verdict.SLOWER if metric.worse(effect) else Verdict.FASTER
        else:
            note = "; ".join(filter(None, ["the machine's own roof next to the case moved as much", note]))
    elif abs(effect) <= math.log1p(metric.practical) or half <= math.log1p(2 * metric.practical):
        verdict = Verdict.SAME
    return Judgment(
        name,
        verdict,
        relative(effect),
        relative(effect - half),
        relative(effect + half),
        base_median,
        new_median,
        note,
        relative(floor),
    )


def _absent(name: str, base: Case | None, new: Case | None) -> Judgment | None:
    """The verdict on a case that was not measured on both sides; None if it was."""
    if new is not None and new.state is State.FAILED:
        return Judgment(name, Verdict.FAILED, note=new.why_not)
    missing = [
        f"{label}: {case.why_not if case else 'does not have it'}"
        for label, case in (("base", base), ("new", new))
        if case is None or case.state is not State.MEASURED
    ]
    if not missing:
        return None
    return Judgment(name, Verdict.NEW if base is None else Verdict.MISSING, note="; ".join(dict.fromkeys(missing)))


def _by_process(results: Sequence[Result]) -> dict[str, list[list[Case]]]:
    """The repetitions of each case, process by process."""
    groups: dict[str, list[list[Case]]] = {}
    for result in results:
        for name, repetitions in result.by_name().items():
            groups.setdefault(name, []).append(repetitions)
    return groups


def _measured(processes: Sequence[list[Case]]) -> list[list[Case]]:
    """The cases of processes that count: those whose merged repetitions are measured, to their end if any are."""
    found = [
        [case for case in repetitions if case.state is State.MEASURED]
        for repetitions in processes
        if merged(repetitions).state is State.MEASURED
    ]
    whole = [[case for case in repetitions if not case.is_interrupted] for repetitions in found]
    return [repetitions for repetitions in whole if repetitions] or found


def compare(base: Sequence[Result], new: Sequence[Result], metric: Metric = TIME) -> list[Judgment]:
    """One judgment per case, in the order of the base, then of the new cases."""
    groups = _by_process(base), _by_process(new)
    turns = in_turns(base, new)
    judgments = []
    for name in dict.fromkeys([*groups[0], *groups[1]]):
        cases = [group.get(name, []) for group in groups]
        whole = [merged([merged(repetitions) for repetitions in side]) if side else None for side in cases]
        judgment = _absent(name, whole[0], whole[1])
        if judgment is None:
            sides = [_side(_measured(side), metric.name) for side in cases]
            if not sides[0].values and not sides[1].values:
                continue
            lacking = [label for label, side in zip(("base", "new"), sides, strict=True) if not side.values]
            if lacking:
                judgment = Judgment(name, Verdict.MISSING, note=f"{lacking[0]}: no {metric.name}")
            else:
                judgment = _judge(name, sides[0], sides[1], metric, turns)
        judgments.append(judgment)
    return judgments
