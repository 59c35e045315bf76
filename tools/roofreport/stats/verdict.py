# SPDX-License-Identifier: Apache-2.0
"""What a comparison says of one case."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    SAME = "SAME"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    AMBIGUOUS = "AMBIGUOUS"
    MISSING = "MISSING"
    NEW = "NEW"
    FAILED = "FAILED"


# Those that make a command exit with 1.
ALARMS = frozenset({Verdict.SLOWER, Verdict.FAILED})


@dataclass(frozen=True)
class Judgement:
    """One case. Effects are relative changes, new over base less 1; nan where there is none."""

    name: str
    verdict: Verdict
    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    base: float = math.nan  # median over processes
    new: float = math.nan
    note: str = ""
    floor: float = math.nan  # a smaller change is not called


def relative(logarithm: float) -> float:
    """The relative change that a difference of logarithms stands for."""
    return math.expm1(logarithm) if logarithm < 700 else math.inf
