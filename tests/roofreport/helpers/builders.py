# SPDX-License-Identifier: Apache-2.0
"""Result files in both formats, for the tests of tools/report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
CONTEXT: dict[str, str] = {
    "roofbench_version": "0.1.0",
    "roofbench_revision": "abc",
    "build_type": "Release",
    "optimized": "true",
    "torch_version": "2.11.0",
    "device_kind": "cpu",
    "device": "Test CPU",
    "threads": "2",
    "seed": "0",
    "reference": "a100-sxm4-40gb",
    "suite": "quick",
    "check": "on",
    "device_arch": "x86_64",
    "cpu_isa": "avx512",
    "cpu_count": "2",
    "command_line": "build/release/bin/roofbench --axis=gelu.n=3 --benchmark_out=night.json",
    "roof_read": "5e+10",
    "roof_copy": "6e+10",
    "roof_fp32": "5e+11",
    "roof_bf16": "1e+12",
}
BEGAN = {"started": "2026-01-01T00:00:00+00:00", "host_name": "vm"}
GEMV = "gemv/impl:eager/dtype:bf16/d:4096"
MATMUL = "matmul/impl:eager/dtype:fp32/n:1024"
COPY = "copy/impl:stream/bytes:268435456"
TIMES = {MATMUL: 10.0, GEMV: 1.0, COPY: 9.0}  # ms
_FLOPS = {MATMUL: 2.0 * 1024**3, GEMV: 2.0 * 4096**2}
_BYTES = {MATMUL: 12.0 * 1024**2, GEMV: 2.0 * 4096**2, COPY: 2.0 * 268435456}

# Names that a page or a terminal could take for more than text.
HOSTILE = [
    "<script>alert(1)</script>/n:1",
    '"><img src=x onerror=alert(1)>/n:1',
    "</style></title><h1>&amp;/dtype:<b>/n:1",
    'a\'b"c&d/dtype:bf16"onload=x/n:1',
    "<svg onload=alert(1)>/n:1",
    "<svg></svg><meta http-equiv=refresh content='0;url=about:blank#gone'>/n:1",
]
# Text that acts on a terminal or on the lines around it.
ACTING = ["a\x1b[31mb", "a\u202eb", "a\rb", "a\nb", "a\0b", "a\ud800b", "a\ufffeb", "a\u2028b"]


def counters(name: str, milliseconds: float) -> dict[str, float]:
    seconds = milliseconds / 1e3
    found: dict[str, float] = {}
    if name in _FLOPS:
        found["FLOP/s"] = _FLOPS[name] / seconds
        found["a100_flop_util"] = found["FLOP/s"] / (19.5e12 if "fp32" in name else 312e12)
    if name in _BYTES:
        found["bytes/s"] = _BYTES[name] / seconds
        found["a100_mem_util"] = found["bytes/s"] / 1555e9
        found["roof"] = 0.5 * TIMES[name] / milliseconds
    found |= {"samples": 40.0, "mean_ms": 1.01 * milliseconds, "stddev_ms": 0.02 * milliseconds, "ci": 0.004}
    return found | {"launch_bound": 0.0, "throttled": 0.0, "noisy": 0.0}


def row(name: str, milliseconds: float, repetition: int = 0, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": f"{name}/manual_time",
        "family_index": 0,
        "per_family_instance_index": 0,
        "run_name": f"{name}/manual_time",
        "run_type": "iteration",
        "repetitions": 1,
        "repetition_index": repetition,
        "threads": 1,
        "iterations": 1,
        "real_time": milliseconds,
        "cpu_time": 2 * milliseconds,
        "time_unit": "ms",
        "label": "converged",
        **counters(name, milliseconds),
    }
    return fields | changes


def generation(model: str, precision: str, rate: float, weights: float) -> dict[str, Any]:
    """A case that generates tokens: `rate` a second, with so many bytes of weights."""
    times = {"ttft_ms": 80.0, "itl_ms": 1e3 / rate, "itl_p95_ms": 2e3 / rate}
    name = f"generate/model:{model}/precision:{precision}/new:8"
    return row(name, 100.0) | times | {"tokens/s": rate, "model_bytes": weights}


def error_row(name: str, message: str) -> dict[str, Any]:
    fields = row(name, 0.001)
    kept = {key: fields[key] for key in list(fields)[:12]}
    return kept | {"real_time": 0.0, "cpu_time": 0.0, "error_occurred": True, "error_message": message}


def document(rows: list[dict[str, Any]] | None = None, **context: Any) -> dict[str, Any]:
    if rows is None:
        rows = [row(name, time) for name, time in TIMES.items()]
    library = {"date": BEGAN["started"], "host_name": BEGAN["host_name"], "executable": "roofbench", "num_cpus": 2}
    caches = [{"type": "Data", "level": 1, "size": 49152, "num_sharing": 1}]
    return {
        "context": {**library, "caches": caches, "load_avg": [0.5, 0.4, 0.3], **CONTEXT, **context},
        "benchmarks": rows,
    }


def write_json(path: Path, rows: list[dict[str, Any]] | None = None, **context: Any) -> Path:
    path.write_text(json.dumps(document(rows, **context)))
    return path


def scaled(factor: float, only: str = "") -> list[dict[str, Any]]:
    """The rows of a machine on which the cases with `only` in their name take `factor` as long."""
    return [row(name, time * (factor if only in name else 1.0)) for name, time in TIMES.items()]


def header(**context: str) -> dict[str, Any]:
    return {"schema": "roofbench-journal-1", "context": {**BEGAN, **CONTEXT, **context}}


def line(name: str, milliseconds: float, repetition: int = 0, **changes: Any) -> dict[str, Any]:
    seconds = milliseconds / 1e3
    fields: dict[str, Any] = {
        "name": name,
        "repetition": repetition,
        "verdict": "measured",
        "stop": "converged",
        "median_s": seconds,
        "cpu_s": 2 * seconds,
        "warmup_steps": 5,
        "steps_per_sample": 1,
        "flops": _FLOPS.get(name, 0.0),
        "bytes": _BYTES.get(name, 0.0),
        "flops_by_precision": {"fp32" if "fp32" in name else "bf16": _FLOPS[name]} if name in _FLOPS else {},
        "counters": counters(name, milliseconds),
        "roof": {"name": "memory", "ratios": [0.5, 0.51]},
        "samples_s": [seconds, 1.01 * seconds, 0.99 * seconds],
        "chunks": [{"first_sample": 0, "samples": 3, "median_s": seconds, "roof_rate": 5e10}],
    }
    return fields | changes


def journal_text(*lines: dict[str, Any]) -> str:
    chosen = lines or (header(), *(line(name, time) for name, time in TIMES.items()))
    return "".join(json.dumps(one) + "\n" for one in chosen)


def profile(case: str, milliseconds: float) -> dict[str, Any]:
    """As --profile writes that of a product."""
    kernel = {"name": "aten::mm", "phase": "", "work": "product", "calls": 1, "total_ms": milliseconds}
    step = {"path": "", "calls": 1, "total_ms": milliseconds, "total_device_ms": 0.0, "flops": 0.0}
    times = dict.fromkeys(("timed_ms", "stopwatch_ms", "profiled_ms"), milliseconds) | {"device_ms": 0.0}
    return {"roofbench_profile": 1, "case": case, **times, "phases": [], "kernels": [kernel], "modules": [step]}


def contract(*families: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A contract of some families, with the counters of the packaged one."""
    packaged: dict[str, Any] = json.loads((ROOT / "tools/roofreport/contract.json").read_text())
    return packaged | {"families": list(families)} | changes


def family(name: str, *axes: dict[str, Any], growth: dict[str, float] | None = None) -> dict[str, Any]:
    """As a contract describes it."""
    expected = [{"axis": axis, "exponent": exponent} for axis, exponent in (growth or {}).items()]
    return {"name": name, "doc": "a family", "axes": list(axes), "implementations": [], "growth": expected}


def axis(name: str, default: str | None = None, role: str = "") -> dict[str, Any]:
    return {"name": name, "doc": "", "kind": "choice", "values": [], "default": default, "role": role}
