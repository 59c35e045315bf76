# SPDX-License-Identifier: Apache-2.0
"""What a page says of a series: a word, a mark beside it, and whether it is for the worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from roofreport.gate.finding import Finding
from roofreport.io.contract import Metric


class Group(Enum):
    WORSE = "worse"
    BETTER = "better"
    STEADY = "steady"


@dataclass(frozen=True)
class Status:
    """The mark tells what colour alone would not."""

    word: str
    mark: str
    group: Group
    rank: int  # the lower, the sooner it deserves a look


STEADY = Status("steady", "·", Group.STEADY, 9)
# Its machine goes on with another toolchain.
ENDED = Status("ended", "■", Group.STEADY, 10)
_KINDS: Mapping[str, Status] = {
    "failed": Status("failed", "✕", Group.WORSE, 0),
    "slower": Status("worse", "▲", Group.WORSE, 1),
    "drift": Status("drift, worse", "↗", Group.WORSE, 2),
    "vanished": Status("vanished", "○", Group.WORSE, 3),
    "noisy": Status("noisy", "≈", Group.STEADY, 7),
    "new": Status("new", "+", Group.STEADY, 8),
    "faster": Status("better", "▼", Group.BETTER, 5),
}
_DRIFT_BETTER = Status("drift, better", "↘", Group.BETTER, 6)


def of(finding: Finding, metric: Metric) -> Status:
    if finding.kind == "drift" and not metric.worse(finding.effect):
        return _DRIFT_BETTER
    return _KINDS.get(finding.kind, STEADY)


def worst(findings: Sequence[Finding], metric: Metric) -> tuple[Status, Finding | None]:
    """Of one series, which may be slower and noisy at once."""
    ranked = [(of(finding, metric), finding) for finding in findings]
    return min(ranked, key=lambda one: one[0].rank) if ranked else (STEADY, None)
