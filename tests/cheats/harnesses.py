# SPDX-License-Identifier: Apache-2.0
"""Ways to time a function, with whatever they check of it: a figure in seconds, or why they give none."""

from __future__ import annotations

import dataclasses
import inspect
import re
import statistics
import time
import timeit
from collections.abc import Callable
from typing import Any, Literal

import roofbench
import torch
from corpus import Cheat, Function, Problem
from torch.utils.benchmark import Timer

# Few samples: the corpus asks who notices, not how exact a figure is. On a busy machine, too, as many.
_FEW: dict[str, Any] = {"max_time": 30, "max_warmup_time": 0.01, "max_samples": 40, "max_wall": 30}
_SEED = 42
_TRIALS = 5
_TIMED = 30
_EVICTED = 8 << 20  # bytes


class RefusedError(Exception):
    """Why a harness does not believe a function."""


def _timeit(function: Function, problem: Problem) -> float:
    args = problem.inputs(_SEED)
    return min(timeit.repeat(lambda: function(*args), number=_TIMED, repeat=3)) / _TIMED


def _torch_timer(function: Function, problem: Problem) -> float:
    variables = {"function": function, "args": problem.inputs(_SEED)}
    return float(Timer("function(*args)", globals=variables).timeit(_TIMED).median)


def _correct(function: Function, problem: Problem, tolerance: float) -> None:
    """Compares as KernelBench does: some fresh inputs by fixed seeds, the reference first."""
    for trial in range(_TRIALS):
        args = problem.inputs(_SEED + trial)
        wanted = problem.reference(*args)
        given = function(*args)
        if wanted.shape != given.shape:
            raise RefusedError("other shape")
        if not torch.allclose(wanted, given, atol=tolerance, rtol=tolerance):
            raise RefusedError("other values")


def _mean_of_calls(function: Function, problem: Problem, between: Callable[[], Any]) -> float:
    """Times as both do, by the clock that stands in for CUDA's events on a processor: one set of inputs, warm-up,
    each call alone."""
    args = problem.inputs(_SEED)
    for _ in range(3):
        function(*args)
    seconds = []
    for _ in range(_TIMED):
        between()
        begin = time.perf_counter()
        function(*args)
        seconds.append(time.perf_counter() - begin)
    return statistics.mean(seconds)


def _kernelbench(function: Function, problem: Problem) -> float:
    try:
        _correct(function, problem, 1e-2)
    except (AttributeError, TypeError) as error:
        raise RefusedError(str(error)) from error
    return _mean_of_calls(function, problem, lambda: None)


def _sol_execbench(function: Function, problem: Problem) -> float:
    try:
        _correct(function, problem, 1e-2)
    except (AttributeError, TypeError) as error:
        raise RefusedError(str(error)) from error
    return _mean_of_calls(function, problem, torch.zeros(_EVICTED // 4).zero_)


def _measure(cache: Literal["cold", "warm"]) -> Callable[[Function, Problem], float]:
    def measure(function: Function, problem: Problem) -> float:
        args = problem.inputs(_SEED)
        result = roofbench.measure(function, *args, reference=problem.reference, cache=cache, roofs=False, **_FEW)
        if not result.ok or result.median is None:
            raise RefusedError(result.failure)
        return result.median

    return measure


@dataclasses.dataclass(frozen=True)
class Harness:
    name: str
    seconds: Callable[[Function, Problem], float]
    suspicious: re.Pattern[str] | None = None  # source that it refuses unread


# What an analysis of source text finds: threads, other classes of tensors, functions put in the place of others.
_SUSPICIOUS = re.compile(r"_pool\(|_Lazy|\.replace\(|_precision")

HARNESSES = (
    Harness("timeit", _timeit),
    Harness("torch.utils.benchmark", _torch_timer),
    Harness("KernelBench's checks", _kernelbench),
    Harness("SOL-ExecBench's checks", _sol_execbench, _SUSPICIOUS),
    Harness("roofbench.measure, warm", _measure("warm")),
    Harness("roofbench.measure", _measure("cold")),
)


def honest_seconds(harness: Harness, cheat: Cheat) -> float:
    """Of its twin. Raises RefusedError."""
    with cheat.function(honest=True) as function:
        return harness.seconds(function, cheat.problem)


def claimed_seconds(harness: Harness, cheat: Cheat) -> float:
    """Of the cheat. Raises RefusedError."""
    if harness.suspicious and harness.suspicious.search(inspect.getsource(cheat.make)):
        raise RefusedError("suspicious source")
    with cheat.function(honest=False) as function:
        return harness.seconds(function, cheat.problem)
