"""The columns of gpt-fast's benchmark.py, so that its readers can be fed from our results."""

from __future__ import annotations

import csv
import io

from roofreport import case_name
from roofreport.result import Result, State, merged
from roofreport.text import printable

COLUMNS = ("name", "metric", "target", "actual", "dtype", "device", "arch", "is_model")
_GIGA = 1e9
# Counter, the metric that gpt-fast calls it, and its scale.
_METRICS = (
    ("tokens/s", "token_per_sec", 1.0),
    ("bytes/s", "memory_bandwidth(GB/s)", _GIGA),
    ("flop_util", "flops_utilization", 1.0),
)


def rows(result: Result) -> list[dict[str, str]]:
    """One row a measured case and metric. Without a published target for the case, `target` is empty."""
    found = []
    for name, repetitions in result.by_name().items():
        case = merged(repetitions)
        if case.state is not State.MEASURED:
            continue
        for counter, metric, scale in _METRICS:
            if counter not in case.counters:
                continue
            found.append(
                {
                    "name": printable(name),
                    "metric": metric,
                    "target": "",
                    "actual": f"{case.counters[counter] / scale:.6g}",
                    "dtype": case_name.axes(name).get("dtype", ""),
                    "device": result.context["device_kind"],
                    "arch": printable(result.context["device"]),
                    "is_model": str("parameters" in case.counters),
                }
            )
    return found


def text(result: Result, with_header: bool) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    if with_header:
        writer.writeheader()
    writer.writerows(rows(result))
    return out.getvalue()
