# SPDX-License-Identifier: Apache-2.0
"""The steps, by what they are worth, and which of them fit into a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_checks import suites, tests
from gpu_checks.facts import facts
from gpu_checks.step import Check, Step
from gpu_checks.suites import suite

# Seconds that LibTorch takes to start with its first context on a GPU, until this call has measured it.
START_S = 8.0
LEAST_S = 20.0  # less than that is no use to a step after its start


@dataclass(frozen=True)
class Row:
    """A step. Its cost is of `starts` programs and of `seconds` of work, estimated for an H100 until one has run it."""

    check: Check
    starts: int
    seconds: float
    worth: int  # of 100; a machine may be taken away at any time, so that the steps run in this order
    gives: str
    resumes: bool = True  # keeps what it has reached, so that it can use any time that is left

    def cost(self, start_s: float) -> float:
        return self.starts * start_s + self.seconds


_KERNELS = (tests.KERNEL_TESTS,)
_CLOCK = ("ClockTest.*",)
_DEVICE = ("DeviceTest.*",)
_GENERATION = [f"--benchmark_filter={suites.GENERATION}", "--max_time=2", "--unverified"]

STEPS: dict[str, Row] = {
    "facts": Row(facts, 0, 10, 100, "what explains any later failure"),
    "kernels_test": Row(tests.tests(_KERNELS), 1, 5, 95, "our kernels are right"),
    "clock_test": Row(tests.tests(_CLOCK), 1, 8, 90, "our times are CUPTI's"),
    "device_test": Row(tests.tests(_DEVICE), 1, 15, 85, "roofs, memory and precisions are sane"),
    "memcheck": Row(tests.sanitizer("memcheck"), 2, 30, 80, "our kernels stay in their operands", resumes=False),
    "racecheck": Row(tests.sanitizer("racecheck"), 2, 40, 75, "our kernels have no races", resumes=False),
    "kernels": Row(suites.kernels, 1, 90, 70, "shares of the bandwidth; with these, our kernels are accepted"),
    "product_against_torch": Row(suites.product_against_torch, 5, 15, 60, "a product takes PyTorch's time"),
    "quick": Row(suite("quick", ["--suite=quick", "--unverified"]), 1, 60, 50, "the figures of the README"),
    "families": Row(
        tests.tests(("*",), (*_KERNELS, *_CLOCK, *_DEVICE)), 1, 150, 40, "every family is right, graphs are their steps"
    ),
    "collectives": Row(suites.collectives, 1, 60, 35, "accepts NCCL and shared steps; needs several GPUs"),
    "generation": Row(suite("generation", _GENERATION), 1, 180, 30, "published generations"),
    "chosen": Row(
        suite("chosen", [f"--benchmark_filter={suites.CHOSEN}", "--unverified"]), 1, 90, 25, "launch-bound cases"
    ),
    "training": Row(
        suite("training", [f"--benchmark_filter={suites.TRAINING}", *suites.TRAINING_FLAGS]), 1, 120, 20, "training"
    ),
    "compiled": Row(
        suite("compiled", ["--benchmark_filter=/impl:compiled/", "--unverified"]),
        1,
        150,
        15,
        "accepts Inductor's packages",
    ),
}


def remaining(row: Row, step: Step | None, start_s: float) -> float:
    """What a step still costs: an earlier call may have done a part."""
    done = step.seconds if step and row.resumes else 0.0
    return max(row.cost(start_s) - done, min(start_s, row.cost(start_s)))


def fits(row: Row, step: Step | None, start_s: float, left: float) -> bool:
    return remaining(row, step, start_s) <= left


def lines(
    rows: Mapping[str, Row], steps: Mapping[str, Step], names: Sequence[str], start_s: float, left: float
) -> Iterator[str]:
    """The plan, as it is printed: what each step costs and is worth, and what is dropped."""
    for name in names:
        row, cost = rows[name], remaining(rows[name], steps.get(name), start_s)
        dropped = cost > left
        left -= 0 if dropped else cost
        yield f"  {name:22} ~{cost:4.0f} s  worth {row.worth:3}  {'dropped: ' if dropped else ''}{row.gives}"
