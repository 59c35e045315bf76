# SPDX-License-Identifier: Apache-2.0
"""One series as its page draws it: readings, levels, what the gate and people said, roofs, and how to repeat it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from roofreport.compare.command import filter_of
from roofreport.gate.finding import Finding
from roofreport.history.records import Annotation, Reading, Series
from roofreport.io.contract import TIME, Metric
from roofreport.io.result import State
from roofreport.site import status
from roofreport.site.data import details, levels
from roofreport.site.data.catalogue import Catalogue
from roofreport.site.data.script import number, words

_PROGRAM = "build/release/bin/roofbench"
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
# Of the counters that hold a time against a datasheet: what follows the name of its device.
_SHARE_OF_SHEET = re.compile(r"(\w+)_(?:flop|mem)_util")
_LETTERS = {State.MEASURED: "m", State.SKIPPED: "s", State.FAILED: "f", State.INTERRUPTED: "i"}


def _sheet(counters: Mapping[str, float]) -> float | None:
    """The larger share of the reference's datasheet: of its arithmetic or of its memory."""
    return max((value for key, value in counters.items() if _SHARE_OF_SHEET.fullmatch(key)), default=None)


def _bounds(readings: Sequence[Reading]) -> dict[str, list[float | None]]:
    """The times that the machine's roof and the reference's datasheet allow for the work."""
    shares = {
        "roof": [one.counters.get("roof") for one in readings],
        "sheet": [_sheet(one.counters) for one in readings],
    }
    found = {}
    for name, parts in shares.items():
        row = [
            number(one.value * part) if one.value and part else None for one, part in zip(readings, parts, strict=True)
        ]
        if any(value is not None for value in row):
            found[name] = row
    return found


def _command(series: Series, readings: Sequence[Reading]) -> list[str]:
    """Lines for a shell; none for a name that no shell should see."""
    if words(series.case) != series.case or not readings:
        return []
    run = readings[-1].run
    lines = [f"git checkout {run.revision}"] if _COMMIT.fullmatch(run.revision) else []
    flags = [f"--threads={run.machine.facts['threads']}"] if run.machine.facts.get("threads", "").isdecimal() else []
    return [*lines, "cmake --build --preset release", shlex.join([_PROGRAM, filter_of([series.case]), *flags])]


def _said(annotations: Sequence[Annotation], series: Series) -> list[list[Any]]:
    return [
        [int(one.since.timestamp() * 1000), words(one.kind, 40), words(one.why, 1000)]
        for one in annotations
        if (not one.pattern or one.pattern == series.case or fnmatchcase(series.case, one.pattern))
        and one.machine_id in ("", series.machine.id)
    ]


def _found(findings: Sequence[Finding], metric: Metric, catalogue: Catalogue) -> list[dict[str, Any]]:
    rows = []
    for one in findings:
        what = status.of(one, metric)
        since = one.since or one.run
        rows.append(
            {"word": what.word, "mark": what.mark, "group": what.group.value, "text": words(one.text, 600)}
            | {"since": int(since.started.timestamp() * 1000), "run": catalogue.run(since)}
        )
    return rows


def data(
    series: Series,
    readings: Sequence[Reading],
    findings: Sequence[Finding],
    annotations: Sequence[Annotation],
    metric: Metric,
    catalogue: Catalogue,
) -> dict[str, Any]:
    values = [number(one.value) for one in readings]
    found = levels.of([one.value for one in readings], metric)
    return {
        "runs": [catalogue.run(one.run) for one in readings],
        "values": values,
        "states": "".join(_LETTERS[one.state] for one in readings),
        "reasons": {str(i): words(one.reason) for i, one in enumerate(readings) if one.reason},
        "noisy": [i for i, one in enumerate(readings) if one.noisy],
        "levels": [[one.first, one.last, *map(number, (one.middle, one.low, one.high))] for one in found],
        "findings": _found(findings, metric, catalogue),
        "annotations": _said(annotations, series),
        "bounds": _bounds(readings) if series.metric == TIME.name else {},
        "reference": words(readings[-1].run.context.get("reference", ""), 60) if readings else "",
        "command": _command(series, readings),
        "details": details.token_of(series),
    }
