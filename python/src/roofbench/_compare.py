# SPDX-License-Identifier: Apache-2.0
"""Two functions in turns in one process: A B, B A, A B, …, judged by the rule of `tools/report abba`."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from roofbench import _core, _render
from roofbench._measure import CaseError, Options, Subject
from roofbench._result import Result

if TYPE_CHECKING:
    from roofreport.stats.verdict import Judgment

# For one function in a pair: many short turns, because the machine changes its speed between long ones.
_SLICE = {"max_time": 0.02, "max_wall": 0.1, "max_warmup_time": 0.005}


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """FASTER and SLOWER say what the second function is. Effects are its change against the first one's time."""

    verdict: str  # FASTER, SLOWER, SAME, AMBIGUOUS; FAILED where a function does not do its work
    base: Result  # of the last pair
    new: Result
    judgment: Judgment | None = None
    pairs: int = 0

    @property
    def ok(self) -> bool:
        return self.base.ok and self.new.ok

    def _columns(self) -> dict[str, str]:
        if self.judgment is None:
            return {}
        found = self.judgment
        return {
            self.base.name: _core.human_time(found.base),
            f"{self.new.name} ": _core.human_time(found.new),
            f"change within {_render.counted(self.pairs, 'pair')}": _render.signed(found.effect),
            "95 % interval": found.interval(),
        }

    def __repr__(self) -> str:
        if self.judgment is None:
            return "\n".join(repr(result) for result in (self.base, self.new) if not result.ok)
        (one, base), (other, new), (change, effect), (_, interval) = self._columns().items()
        return f"{one} {base}, {other}{new}: {self.verdict}, {change} {effect} ({interval})"

    def _repr_html_(self) -> str:
        why = "; ".join(f"{result.name}: {result.failure}" for result in (self.base, self.new) if not result.ok)
        return _render.table(self.verdict, self._columns(), {}, why, "verdict")


def compare(
    base: Callable[..., Any],
    new: Callable[..., Any],
    *args: Any,
    budget: float = 4.0,
    pairs: int = 200,
    **options: Any,
) -> Comparison:
    """Measures both functions with the same arguments by turns, until the verdict is clear or `budget` seconds or
    `pairs` are over. `options` are those of `measure`. Both are checked before and after, as there; without a
    `reference`, the first function is the reference of the second.

    One process gives one layout of memory: a difference that must hold for every process needs `tools/report abba` or a
    family of each.
    """
    try:
        from roofreport.stats import sequential
    except ImportError as error:
        raise ImportError(
            "compare judges by the rule of roofreport, which is not installed:"
            " pip install '.[history]' in a checkout of roofbench"
        ) from error
    given = Options(**{"roofs": False, **_SLICE, **options})
    second = given if given.reference is not None else dataclasses.replace(given, reference=base)
    sides = (Subject(base, args, given), Subject(new, args, second))
    if sides[0].name == sides[1].name:
        for side, suffix in zip(sides, ("A", "B"), strict=True):
            side.name = f"{side.name}/side:{suffix}"
    results = [side.result() for side in sides]
    trial = sequential.Trial("")
    looks = 0
    with contextlib.ExitStack() as stack:
        for index, side in enumerate(sides):
            stack.callback(side.finish)
            side.calibrate()
            results[index] = _attempt(side, Subject.prepare)
        if not all(result.ok for result in results):
            return Comparison("FAILED", results[0], results[1])
        begin, spent = time.monotonic(), 0.0
        while trial.verdict is None and trial.pairs < pairs and (spent < budget or trial.pairs < sequential.MIN_PAIRS):
            medians = [0.0, 0.0]
            for index in (0, 1) if trial.pairs % 2 == 0 else (1, 0):
                results[index] = _attempt(sides[index], Subject.judged_samples)
                if not results[index].ok:
                    return Comparison("FAILED", results[0], results[1], pairs=trial.pairs)
                medians[index] = results[index].median or math.nan
            trial.base.append(math.log(medians[0]))
            trial.new.append(math.log(medians[1]))
            spent = time.monotonic() - begin
            done = min(1.0, max(spent / budget, trial.pairs / pairs))
            if sequential.is_due(looks, done, trial.pairs):
                sequential.look([trial], done)
                looks += 1
        if trial.verdict is None and looks < len(sequential.LOOKS):
            sequential.look([trial], 1.0)
        for index, side in enumerate(sides):
            results[index] = _attempt(side, Subject.check_after)
    judgment = trial.judgment()
    verdict = judgment.verdict.value if all(result.ok for result in results) else "FAILED"
    return Comparison(verdict, results[0], results[1], judgment, trial.pairs)


def _attempt(side: Subject, act: Callable[[Subject], None]) -> Result:
    try:
        act(side)
    except CaseError as failure:
        return side.result(str(failure))
    return side.result()
