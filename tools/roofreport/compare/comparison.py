# SPDX-License-Identifier: Apache-2.0
"""Compares existing results, case by case.

The sample is the process: repetitions inside one process share its memory layout and its minute, so that they carry no
information about the next process. What their difference is worth, roofreport.stats.processes says. Rows that call
themselves noisy, or that have too few samples, show what else ran at their time rather than the program: they get no
verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from roofreport.compare.machine_noise import NOTHING, Known
from roofreport.io.contract import TIME, Metric
from roofreport.io.reliability import doubt
from roofreport.io.result import Case, Result, State, merged
from roofreport.stats.places import HANDOVER, groups, text
from roofreport.stats.processes import Noise, difference
from roofreport.stats.verdict import Judgment, Split, Verdict, find_split, relative

# The change minus the roof's own change has to be at least this share of the floor.
UNEXPLAINED_SHARE = 0.5


@dataclass(frozen=True)
class Side:
    """One case on one side of a comparison: one value per process."""

    values: list[float]
    roof_seconds: list[float]  # time allowed by the roof next to the case, up to a constant factor; empty if unknown
    split: Split | None = None  # of the repetitions of a process
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
    found = next((found for values in repetitions if (found := find_split(values))), None)
    why = doubt(merged(cases))
    return Side(_values(cases, metric), roofs if len(roofs) == len(cases) else [], found, why)


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


def _judge(name: str, base: Side, new: Side, metric: Metric, turns: bool, noise: Noise, cases: int) -> Judgment:
    base_median, new_median = median(base.values), median(new.values)
    if not metric.noisy or min(base.values + new.values) <= 0:
        return _exact(name, base_median, new_median, metric)
    logs = [[math.log(value) for value in side.values] for side in (base, new)]
    found = difference(logs[0], logs[1], noise, turns, cases)
    effect = found.effect
    doubts = [f"{label}: {side.doubt}" for label, side in (("base", base), ("new", new)) if side.doubt]
    if doubts:
        change = relative(effect)
        return Judgment(name, Verdict.AMBIGUOUS, change, base=base_median, new=new_median, note="; ".join(doubts))
    if sorted(base.values) == sorted(new.values):
        return Judgment(name, Verdict.SAME, 0.0, 0.0, 0.0, base_median, new_median, "the same figures", 0.0)
    floor = max(found.floor, math.log1p(metric.practical))
    apart = [f"{side} repetitions split: {s.split.text()}" for side, s in (("base", base), ("new", new)) if s.split]
    note = "; ".join(apart if metric is TIME else [])
    verdict = Verdict.AMBIGUOUS
    resolved = floor if floor <= math.log1p(2 * metric.practical) else math.log1p(metric.practical)
    is_same = abs(effect) <= resolved
    if found.split or (found.doubt and not is_same):
        note = "; ".join(filter(None, [found.doubt, note]))
    elif abs(effect) > floor:
        remaining = effect - _explained(effect, base, new)
        if abs(remaining) >= UNEXPLAINED_SHARE * floor:
            verdict = Verdict.SLOWER if metric.worse(effect) else Verdict.FASTER
        else:
            note = "; ".join(filter(None, ["the machine's own roof next to the case moved as much", note]))
    elif is_same:
        verdict = Verdict.SAME
    return Judgment(
        name,
        verdict,
        relative(effect),
        relative(found.low),
        relative(found.high),
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


def _of_one_place(sides: Sequence[list[list[Case]]]) -> tuple[Sequence[list[list[Case]]], str, str]:
    """The processes whose threads were as near to each other, of the place that has most of both sides, and a note of
    which they are; or all, and why they cannot be compared: none of one side ran where one of the other did.
    """
    handovers = [[merged(process).value(HANDOVER) for process in side] for side in sides]
    both = [*handovers[0], *handovers[1]]
    places = groups(both)
    if len(places) == 1 or not all(sides):
        return sides, "", ""
    of_base = range(len(sides[0]))
    shares = [(sum(index in of_base for index in place), place) for place in places]
    fewest, chosen = max(((min(count, len(place) - count), place) for count, place in shares), key=lambda one: one[0])
    if fewest == 0:
        return sides, "", f"threads {text(handovers[0])} apart in base, {text(handovers[1])} in new"
    numbers = iter(range(len(both)))
    kept = [[one for one in side if next(numbers) in chosen] for side in sides]
    counts = " and ".join(f"{len(few)} of {len(side)}" for few, side in zip(kept, sides, strict=True))
    return kept, f"{counts} processes, whose threads were {text([both[index] for index in chosen])} apart", ""


def compare(
    base: Sequence[Result], new: Sequence[Result], metric: Metric = TIME, known: Known = NOTHING
) -> list[Judgment]:
    """One judgment per case, in the order of the base, then of the new cases."""
    base, new = (sorted(side, key=lambda result: result.date) for side in (base, new))
    groups = _by_process(base), _by_process(new)
    turns = in_turns(base, new)
    judgments = []
    names = dict.fromkeys([*groups[0], *groups[1]])
    for name in names:
        cases = [group.get(name, []) for group in groups]
        whole = [merged([merged(repetitions) for repetitions in side]) if side else None for side in cases]
        judgment = _absent(name, whole[0], whole[1])
        if judgment is None:
            measured: Sequence[list[list[Case]]] = [_measured(side) for side in cases]
            place = elsewhere = ""
            if metric.noisy:
                measured, place, elsewhere = _of_one_place(measured)
            sides = [_side(side, metric.name) for side in measured]
            if not sides[0].values and not sides[1].values:
                continue
            lacking = [label for label, side in zip(("base", "new"), sides, strict=True) if not side.values]
            if lacking:
                judgment = Judgment(name, Verdict.MISSING, note=f"{lacking[0]}: no {metric.name}")
            else:
                judgment = _judge(name, sides[0], sides[1], metric, turns, known.of(name), len(names))
            if elsewhere and judgment.verdict in (Verdict.SAME, Verdict.SLOWER, Verdict.FASTER):
                judgment = replace(judgment, verdict=Verdict.AMBIGUOUS)
            judgment = replace(judgment, note="; ".join(filter(None, [elsewhere, place, judgment.note])))
        judgments.append(judgment)
    return judgments
