# SPDX-License-Identifier: Apache-2.0
"""A night as markdown: its steps, and what the gate found."""

from __future__ import annotations

from collections.abc import Sequence

from roofreport.text import printable

from nights.chain import FAILED, OK, Outcome
from nights.night import Night

_LARGEST = 900_000  # a job summary of GitHub may have 1 MiB
_PLAIN = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#!&"})


def _cell(text: str) -> str:
    return printable(text, 500).translate(_PLAIN)


def markdown(night: Night, outcomes: Sequence[Outcome]) -> str:
    failed = [outcome.step for outcome in outcomes if outcome.state == FAILED]
    lines = [f"## Night of {night.began:%Y-%m-%d %H:%M} UTC", ""]
    if failed:
        lines += [f"**Failed: {', '.join(failed)}**", ""]
    lines += ["| step | | |", "| --- | --- | --- |"]
    lines += [f"| {outcome.step} | {outcome.state} | {_cell(outcome.why)} |" for outcome in outcomes]
    text = "\n".join(lines) + "\n"
    try:
        found = night.findings("md").read_text(encoding="utf-8")
    except OSError:
        return text
    return (
        f"{text}\n{found[:_LARGEST]}\n" if any(one.step == "gate" and one.state != FAILED for one in outcomes) else text
    )


def last_line(outcomes: Sequence[Outcome]) -> str:
    told = [str(outcome) for outcome in outcomes if outcome.state != OK]
    return "; ".join(told) or "ok"
