# SPDX-License-Identifier: Apache-2.0
"""Google Benchmark's JSON of a record, for its compare.py."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from roofbench import _core

_PER_SECOND = 1e6
_UNIT = "us"  # compare.py shows whole ones
_LONGEST_REASON = 2000


def document(facts: Mapping[str, str], lines: Sequence[Mapping[str, Any]], repetitions: int) -> str:
    context = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "host_name": socket.gethostname(),
        "executable": "python -m roofbench",
        "num_cpus": os.cpu_count() or 1,
        "load_avg": list(os.getloadavg()),
        **facts,
    }
    numbers = {name: number for number, name in enumerate(dict.fromkeys(line["name"] for line in lines))}
    rows = [_row(line, numbers[line["name"]], repetitions) for line in lines]
    return json.dumps({"context": context, "benchmarks": rows}, indent=1, ensure_ascii=False) + "\n"


def _row(line: Mapping[str, Any], number: int, repetitions: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": line["name"],
        "family_index": number,
        "per_family_instance_index": 0,
        "run_name": line["name"],
        "run_type": "iteration",
        "repetitions": repetitions,
        "repetition_index": line["repetition"],
        "threads": 1,
    }
    if line["verdict"] != "measured":
        reason = _core.printable(line.get("reason", ""), _LONGEST_REASON)
        row |= {"error_occurred": True, "error_message": f"{line['verdict']}: {reason}"}
    return row | {
        "iterations": 1,
        "real_time": line.get("median_s", 0.0) * _PER_SECOND,
        "cpu_time": line.get("cpu_s", 0.0) * _PER_SECOND,
        "time_unit": _UNIT,
        **line.get("counters", {}),
        **({"label": line["stop"]} if "stop" in line else {}),
    }
