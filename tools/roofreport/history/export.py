# SPDX-License-Identifier: Apache-2.0
"""A history in the formats of other tools."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from roofreport.errors import UnusableInputError
from roofreport.history.records import Reading, Run
from roofreport.io import case_name, gpt_fast
from roofreport.io.contract import TIME, Better, Metric, packaged
from roofreport.project_folder import INSTALLS

if TYPE_CHECKING:
    from roofreport.history.store import Store


_FLAG = "0 or 1"


@dataclass(frozen=True)
class ExportedCase:
    case: str
    run: Run
    reading: Reading  # of the time

    @property
    def seconds(self) -> float | None:
        return self.reading.value

    @property
    def dtype(self) -> str:
        return case_name.dtype(self.case, packaged())

    def metrics(self) -> Iterator[tuple[Metric, float]]:
        """The time and every counter that has a direction, but no flags, nor what rows in doubt say of the time:
        services divide one run's value by another's.
        """
        if self.seconds is None:
            return
        contract = packaged()
        if not self.reading.doubt:
            yield contract.time, self.seconds
        for name, value in self.reading.counters.items():
            metric = contract.metric(name)
            if (
                metric is not None
                and not (metric.noisy and self.reading.doubt)
                and metric.better is not Better.NEITHER
                and metric.unit != _FLAG
            ):
                yield replace(metric, name=name), value


@dataclass(frozen=True)
class Choice:
    """The part of a history to export."""

    last: int | None = None  # the newest runs of each machine and toolchain
    machine: str = ""  # runs of machines with this text in their name


def _rows(store: Store, choice: Choice) -> list[ExportedCase]:
    """Run by run, oldest first."""
    found = [
        ExportedCase(series.case, reading.run, reading)
        for series, readings in store.history(TIME.name, run_limit=choice.last).items()
        for reading in readings
        if choice.machine in reading.run.machine.label
    ]
    return sorted(found, key=lambda row: (row.run.started, row.run.id, row.case))


def known_texts(facts: Mapping[str, object]) -> dict[str, str]:
    """Facts for tools that take only text; unknown ones are left out."""
    return {key: str(value) for key, value in facts.items() if value not in (None, "")}


# Records of the benchmark database that hud.pytorch.org shows, schema v3: one JSON object per line.
#
# Fields and types are those of clickhouse_db_schema/oss_ci_benchmark_v3 of pytorch/test-infra. The uploader adds the
# fields that identify the workflow (repo, head_branch, workflow_id, job_id).

_SUITE = "roofbench"
_CPU = "cpu"
_GIBIBYTE = 1 << 30
_LARGEST = 3.4e38  # values are Float32
# The axis that selects the part of a training step, and its value for inference.
_PASS, _INFERENCE = "pass", "inference"
# The counter that families of models have.
_PARAMETERS = "parameters"
_TRAINS = "backward_ms"


def _count(context: Mapping[str, str], key: str) -> int:
    text = context.get(key, "")
    return int(text) if text.isdecimal() and len(text) < 19 else 0


def _runner(row: ExportedCase) -> dict[str, Any]:
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
    return runner | {"extra_info": known_texts(row.run.machine.facts)}


def _pytorch_hud(store: Store, choice: Choice) -> bytes:
    lines: list[str] = []
    for row in _rows(store, choice):
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
                "extra_info": known_texts(
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
            lines.append(json.dumps({**shared, "metric": figure}) + "\n")
    return "".join(lines).encode()


# Column, its type as PyArrow calls it, and its value.
_COLUMNS: tuple[tuple[str, str, Callable[[ExportedCase], Any]], ...] = (
    ("case", "string", lambda row: row.case),
    ("family", "string", lambda row: case_name.family(row.case)),
    ("run", "int64", lambda row: row.run.id),
    ("digest", "string", lambda row: row.run.digest),
    ("started", "timestamp", lambda row: row.run.started),
    ("revision", "string", lambda row: row.run.revision),
    ("machine", "string", lambda row: row.run.machine.label),
    ("machine_id", "string", lambda row: row.run.machine.id),
    ("toolchain", "string", lambda row: row.run.toolchain.label),
    ("toolchain_id", "string", lambda row: row.run.toolchain.id),
    ("file", "string", lambda row: row.run.name),
    ("state", "string", lambda row: row.reading.state.value),
    ("reason", "string", lambda row: row.reading.reason),
    ("noisy", "bool_", lambda row: row.reading.counters.get("noisy", 0.0) > 0),
    ("doubt", "string", lambda row: row.reading.doubt),
    ("seconds", "float64", lambda row: row.seconds),
)
# Keep axes and counters apart from columns of the same name.
_AXIS, _COUNTER = "axis.", "counter."


def _parquet(store: Store, choice: Choice) -> bytes:
    """Apache Parquet: one row for each case and run, one column for each fact, axis and counter."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as missing:
        raise UnusableInputError(f"Parquet needs the Python package pyarrow; {INSTALLS}") from missing
    rows = _rows(store, choice)
    arrays = {}
    for name, kind, value in _COLUMNS:
        arrow = pa.timestamp("us", tz="UTC") if kind == "timestamp" else getattr(pa, kind)()
        arrays[name] = pa.array([value(row) for row in rows], arrow)
    axes = {case: case_name.all_axes(case, packaged()) for case in dict.fromkeys(row.case for row in rows)}
    for name in dict.fromkeys(name for own in axes.values() for name in own):
        arrays[_AXIS + name] = pa.array([axes[row.case].get(name) for row in rows], pa.string())
    for name in dict.fromkeys(name for row in rows for name in row.reading.counters):
        arrays[_COUNTER + name] = pa.array([row.reading.counters.get(name) for row in rows], pa.float64())
    out = io.BytesIO()
    pq.write_table(pa.table(arrays), out, compression="zstd")
    return out.getvalue()


def _github_action_benchmark(store: Store, choice: Choice, better: Better) -> bytes:
    """For its tools customSmallerIsBetter and customBiggerIsBetter, each of which takes one direction."""
    found: list[dict[str, Any]] = []
    for row in _newest_run(store, choice):
        for metric, value in row.metrics():
            if metric.better is not better:
                continue
            entry: dict[str, Any] = {"name": f"{row.case}: {metric.name}", "unit": metric.unit, "value": value}
            if metric.name == TIME.name and "ci" in row.reading.counters:  # the half width of the interval, relative
                entry["range"] = f"± {row.reading.counters['ci'] * value:.3g}"
            entry["extra"] = f"{row.run.machine.label}\n{row.run.toolchain.label}\n{row.run.revision or 'no revision'}"
            found.append(entry)
    return (json.dumps(found, indent=1) + "\n").encode()


def _newest_run(store: Store, choice: Choice) -> list[ExportedCase]:
    """The newest run of all machines."""
    rows = _rows(store, replace(choice, last=1))
    return [row for row in rows if row.run == rows[-1].run]


def _gpt_fast(store: Store, choice: Choice) -> bytes:
    rows = _newest_run(store, choice)
    if not rows:
        return b""
    result = store.record(rows[-1].run).result
    doubtful = {row.case for row in rows if row.reading.doubt}  # all of its figures follow from times
    return gpt_fast.text(
        [replace(result, cases=tuple(case for case in result.cases if case.name not in doubtful))]
    ).encode()


FORMATS: dict[str, Callable[[Store, Choice], bytes]] = {
    "parquet": _parquet,
    "pytorch-hud": _pytorch_hud,
    "gpt-fast": _gpt_fast,
    "github-action-benchmark-smaller": partial(_github_action_benchmark, better=Better.LOWER),
    "github-action-benchmark-bigger": partial(_github_action_benchmark, better=Better.HIGHER),
}
BINARY = "parquet"
OF_MANY_RUNS = ("parquet", "pytorch-hud")  # the other formats lack a date
