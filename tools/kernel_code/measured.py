# SPDX-License-Identifier: Apache-2.0
"""Compares our kernels' measured shares of bandwidth on a GPU with the expected ones (gpu_expected.json)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Cases of our kernels that exceed every L2; 8200 is a multiple of 8 but not of 16. The large ones are for fast
# memory: a matrix of 8192 x 8192 in int4 is read from an H200's in 7 µs, hardly longer than a launch takes. A row of
# 256 columns is a warp's. The filter takes a batch where a kernel has one, 8200 where the rows need no 16 columns or
# groups: 42 cases, of several times as many that the axes cross.
_ROWS = {"LayerNormRows": "layer_norm", "RmsNormRows": "rms_norm", "SoftmaxRows": "softmax"}
_LARGE = "n:(8192|16384|32768)"
_PRECISIONS = rf"(bf16|fp32|int8)/n:|(int8/batch:[0-9]|int4)/{_LARGE}"
FLAGS = (
    rf"--benchmark_filter=^(gemv/impl:native/precision:({_PRECISIONS})"
    r"|(rms_norm|layer_norm|softmax)/impl:native/dtype:(bf16|fp32)/rows:)",
    "--axis=gemv.n=8192,8200,16384,32768",
    "--axis=gemv.batch=1,2,4,8",
    "--axis=gemv.k=n",
    *(f"--axis={family}.{size}" for family in _ROWS.values() for size in ("rows=65536", "d=256,4096,8192")),
    "--axis=cache=cold",
    "--unverified",
)
# The cases that launch a kernel; the best of them counts.
CASES = {
    "GemvRows<Bf16Weights, 1>": r"^gemv/impl:native/precision:bf16/n:",
    "GemvRows<Fp32Weights, 1>": r"^gemv/impl:native/precision:fp32/n:",
    "GemvRows<Int4Weights, 1>": r"^gemv/impl:native/precision:int4/(group:\d+/)?n:",
    "GemvRows<Int8Weights<uint2, 8>, 1>": r"^gemv/impl:native/precision:int8/n:8200",
    "GemvRows<Int8Weights<uint4, 8>, 1>": r"^gemv/impl:native/precision:int8/n:(8192|16384|32768)",
    "GemvRows<Int8Weights<uint4, 8>, 2>": r"^gemv/impl:native/precision:int8/batch:2/n:(8192|16384|32768)",
    "GemvRows<Int8Weights<uint4, 8>, 4>": r"^gemv/impl:native/precision:int8/batch:4/n:(8192|16384|32768)",
    "GemvRows<Int8Weights<uint4, 4>, 8>": r"^gemv/impl:native/precision:int8/batch:8/n:(8192|16384|32768)",
    **{
        f"{function}<{element}, {team}>": rf"^{family}/impl:native/dtype:{dtype}/(rows:\d+/)?d:{columns}\b"
        for function, family in _ROWS.items()
        for element, dtype in (("bf16", "bf16"), ("float", "fp32"))
        for team, columns in (("Block", r"(?!256\b)\d+"), ("Warp", "256"))
    },
}
# The roof that the better of a stream's two variants measures.
ROOFS = {
    "CopyStream": "roof_copy",
    "ReadStream": "roof_read",
    "UpdateStream": "roof_update",
    "WriteStream": "roof_write",
}


def _best(cases: Sequence[Mapping[str, Any]], names: str) -> tuple[float | None, str | None]:
    """The largest share of the datasheet's bandwidth, and its case."""
    shares = [
        (float(case["mem_util"]), str(case["name"]))
        for case in cases
        if re.search(names, case["name"]) and "mem_util" in case and not case.get("error_occurred")
    ]
    return max(shares, default=(None, None))


def _of_roof(kernel: str, context: Mapping[str, str], known: Mapping[str, Any]) -> tuple[float | None, str | None]:
    roof = ROOFS.get(kernel.split("<")[0], "")
    bandwidth = known["bytes_per_second"].get(context.get("gpu_datasheet"))
    return (float(context[roof]) / bandwidth, roof) if bandwidth and roof in context else (None, None)


def rows(results: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One for each kernel: shares of the datasheet's bandwidth, null if unknown."""
    known = json.loads(Path(__file__).with_name("gpu_expected.json").read_text(encoding="utf-8"))
    context = results.get("context", {})
    made = []
    for kernel, shares in known["shares"].items():
        measured, by = _best(cases, CASES[kernel]) if kernel in CASES else _of_roof(kernel, context, known)
        made.append(
            {
                "kernel": kernel,
                "expected_not_measured": shares.get(context.get("gpu_datasheet")),
                "measured": measured,
                "measured_by": by,
            }
        )
    return made


def graph_speedups(cases: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The eager time over the graph's, by the name of the graph's case."""
    seconds = {case["name"]: case["real_time"] for case in cases if not case.get("error_occurred")}
    speedups = {}
    for name, graph in seconds.items():
        for eager in (name.replace("impl:graph", "impl:eager"), name.replace("impl:graph/", "")):
            if "impl:graph" in name and eager in seconds and graph > 0:
                speedups[name] = seconds[eager] / graph
    return speedups
