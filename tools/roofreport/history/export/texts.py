# SPDX-License-Identifier: Apache-2.0
"""Text formats for one night: what a continuous-benchmarking service takes in after a night."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from roofreport.history.export.row import Row
from roofreport.io.contract import TIME, Better

_NANOSECONDS = 1e9
# Bencher's own names of a time and of a rate; both come with a unit.
_LATENCY = "latency"
_LONGEST_MEASURE = 64


def github_action_benchmark(rows: Sequence[Row], better: Better) -> str:
    """For its tools customSmallerIsBetter and customBiggerIsBetter, each of which takes one direction."""
    found: list[dict[str, Any]] = []
    for row in rows:
        for metric, value in row.metrics():
            if metric.better is not better:
                continue
            entry: dict[str, Any] = {"name": f"{row.case}: {metric.name}", "unit": metric.unit, "value": value}
            width = row.half_width()
            if metric.name == TIME.name and width is not None:
                entry["range"] = f"± {width:.3g}"
            entry["extra"] = f"{row.run.machine.label}\n{row.run.toolchain.label}\n{row.run.revision or 'no revision'}"
            found.append(entry)
    return json.dumps(found, indent=1) + "\n"


def _measure(name: str) -> str:
    """Bencher makes a slug of it: "FLOP/s" is flop-s."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_MEASURE] or "unnamed"


def bencher(rows: Sequence[Row]) -> str:
    """Bencher Metric Format. Its latency is in nanoseconds; everything else is in the unit of the counter."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        measures: dict[str, dict[str, float]] = {}
        for metric, value in row.metrics():
            if metric.name != TIME.name:
                measures[_measure(metric.name)] = {"value": value}
                continue
            entry = {"value": value * _NANOSECONDS}
            width = row.half_width()
            if width is not None:
                entry |= {"lower_value": (value - width) * _NANOSECONDS, "upper_value": (value + width) * _NANOSECONDS}
            measures[_LATENCY] = entry
        if measures:
            found[row.case] = measures
    return json.dumps(found, indent=1) + "\n"


# Family of metrics, what it is, and its unit; the value is that of a row.
_SECONDS = "roofbench_case_time_seconds"
_COUNTER = "roofbench_case_counter"
_MEASURED = "roofbench_case_measured"
_STARTED = "roofbench_run_start_timestamp_seconds"
_ABOUT = (
    (_SECONDS, "seconds", "Median time of one step."),
    (_COUNTER, "", "A counter of the case, in its own unit."),
    (_MEASURED, "", "1: measured, 0: failed, skipped or interrupted."),
    (_STARTED, "seconds", "When the newest run began."),
)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def open_metrics(rows: Sequence[Row]) -> str:
    """OpenMetrics 1.0: the newest run as gauges, to be scraped or pushed."""
    samples: dict[str, list[str]] = {name: [] for name, _, _ in _ABOUT}
    started: dict[str, float] = {}

    def add(family: str, labels: dict[str, str], value: float) -> None:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        samples[family].append(f"{family}{{{inside}}} {value!r}")

    for row in rows:
        machine = {"machine": row.run.machine.label, "toolchain": row.run.toolchain.label}
        machine |= {"machine_id": row.run.machine.id, "toolchain_id": row.run.toolchain.id}
        labels = {"case": row.case, **machine}
        started[json.dumps(machine)] = row.run.started.timestamp()
        add(_MEASURED, labels, 1.0 if row.measured else 0.0)
        if row.measured and row.seconds is not None:
            add(_SECONDS, labels, row.seconds)
            for name, value in row.reading.counters.items():
                add(_COUNTER, {**labels, "counter": name}, value)
    for machine_text, moment in started.items():
        add(_STARTED, json.loads(machine_text), moment)
    lines: list[str] = []
    for name, unit, about in _ABOUT:
        lines += [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {about}"]
        lines += samples[name]
    return "\n".join([*lines, "# EOF"]) + "\n"
