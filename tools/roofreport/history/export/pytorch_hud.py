# SPDX-License-Identifier: Apache-2.0
"""Records of the benchmark database behind hud.pytorch.org, schema v3: one JSON object a line.

Fields and types are those of clickhouse_db_schema/oss_ci_benchmark_v3 of pytorch/test-infra. What names the workflow
(repo, head_branch, workflow_id, job_id) is added by whoever uploads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from roofreport.history.export.row import Row, texts
from roofreport.io import case_name

_SUITE = "roofbench"
_CPU = "cpu"
_GIBIBYTE = 1 << 30
_LARGEST = 3.4e38  # values are Float32
# The axis that says what of a training step is done, and its value that is no training.
_PASS, _INFERENCE = "pass", "inference"
# Of families of models: those that count parameters.
_PARAMETERS = "parameters"
_TRAINS = "backward_ms"


def _count(context: Mapping[str, str], key: str) -> int:
    text = context.get(key, "")
    return int(text) if text.isdecimal() and len(text) < 19 else 0


def _runner(row: Row) -> dict[str, Any]:
    context = row.run.context
    on_cpu = context.get("device_kind") == _CPU
    gibibytes = min(_count(context, "memory_bytes") // _GIBIBYTE, 2**32 - 1)
    device = context.get("device", "")
    runner: dict[str, Any] = {"name": context.get("host_name", ""), "type": row.run.machine.label}
    if on_cpu:
        count = min(_count(context, "cpu_count"), 2**32 - 1)
        runner |= {"cpu_info": device, "cpu_count": count, "avail_mem_in_gb": gibibytes}
    else:
        runner |= {"gpu_info": device, "gpu_count": 1, "avail_gpu_mem_in_gb": gibibytes}
    return runner | {"extra_info": texts(row.run.machine.facts)}


def records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for row in rows:
        axes = case_name.axes(row.case)
        is_model = _PARAMETERS in row.reading.counters
        trains = axes.get(_PASS) != _INFERENCE and _TRAINS in row.reading.counters
        shared = {
            "timestamp": max(0, int(row.run.started.timestamp())),
            "schema_version": "v3",
            "head_sha": row.run.revision,
            "benchmark": {
                "name": _SUITE,
                "mode": "training" if trains else "inference",
                "dtype": row.dtype,
                "extra_info": texts(
                    {
                        "device": row.run.context.get("device_kind"),
                        "arch": row.run.context.get("device"),
                        "machine_id": row.run.machine.id,
                        "toolchain_id": row.run.toolchain.id,
                    }
                ),
            },
            "model": {
                "name": row.case,
                "type": "model" if is_model else "micro-benchmark",
                "backend": axes.get("impl", ""),
                "origins": [_SUITE],
                "extra_info": axes,
            },
            "runners": [_runner(row)],
            "inputs": {},
            "dependencies": {
                "pytorch": {
                    "repo": "pytorch/pytorch",
                    "branch": "",
                    "sha": "",
                    "version": row.run.context.get("torch_version", ""),
                    "extra_info": {},
                }
            },
        }
        for metric, value in row.metrics():
            if abs(value) > _LARGEST:
                continue
            facts = {"unit": metric.unit, "better": metric.better.value}
            figure = {"name": metric.name, "benchmark_values": [value], "extra_info": facts}
            found.append({**shared, "metric": figure})
    return found


def text(rows: Sequence[Row]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records(rows))
