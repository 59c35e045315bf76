# SPDX-License-Identifier: Apache-2.0
"""Where the threads of a process ran: the processors of a virtual machine change places within minutes, between those
that share a cache and those that do not, and with them what threads take to meet, and the bandwidth of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from roofreport.io.reliability import doubt
from roofreport.io.result import Case

# The program's counter: what a cache line takes from one thread to the next.
HANDOVER = "handover_ns"
# Larger ratios are those of two places (kMoved in lib/hardware/conditions/handover.cc).
MOVED = 2.6
# The largest ratio of times that they explained (docs/comparing.md).
MOST_OF_PLACE = 1.6

Handover = float | None  # None: unknown, as of a GPU or a run of one thread


def same_place(one: Handover, other: Handover) -> bool:
    return not one or not other or max(one, other) <= MOVED * min(one, other)


def groups(handovers: Sequence[Handover]) -> list[list[int]]:
    """The numbers of the processes of each place, nearest first; all in one where one of them is unknown."""
    known = [one for one in handovers if one]
    if len(known) < len(handovers):
        return [list(range(len(handovers)))]
    found: list[list[int]] = []
    last = 0.0
    for place, index in sorted((value, index) for index, value in enumerate(known)):
        if not found or not same_place(last, place):
            found.append([])
        found[-1].append(index)
        last = place
    return found


def apart(one: Case, other: Case) -> str:
    """How two cases ran in different places; empty if they did not."""
    places = [case.value(HANDOVER) for case in (one, other)]
    return "" if same_place(*places) else f"threads {text(places[:1])} apart, and {text(places[1:])}"


def doubt_between(one: Case, other: Case) -> str:
    """Why the ratio of two measured cases is no conclusion; empty if it is one."""
    return doubt(one) or doubt(other) or apart(one, other)


def legend(cases: Sequence[Case]) -> list[str]:
    """Of a table with ratios of them."""
    known = [handover for case in cases if (handover := case.value(HANDOVER))]
    if len(groups(known)) < 2:
        return []
    return [f"in doubt though neither row is: their threads ran in different places ({HANDOVER})"]


def text(handovers: Sequence[Handover]) -> str:
    return f"{median(one for one in handovers if one):.0f} ns"
