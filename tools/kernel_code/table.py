# SPDX-License-Identifier: Apache-2.0
"""The expected share of a GPU's memory roof for each kernel, and the table of docs/gpus.md. The model only uses the
machine code; it is not confirmed on a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from kernel_code.rules import (
    NEEDED_IN_FLIGHT,
    VECTOR,
    WARP,
    Rule,
    bytes_in_flight,
    loads_in_flight,
    longest_flight,
    rule_of,
    vector_stores,
)
from kernel_code.sass import Instruction, Kernel

SCHEDULERS = 4  # of a multiprocessor; each issues one instruction of a warp per cycle
ATTAINABLE = 0.90  # of the datasheet's bandwidth: a copy on an H200 moves 4.3 of 4.8 TB/s
ARCHES = ("sm_80", "sm_90")


class Gpu(NamedTuple):
    """From NVIDIA's datasheets; clock without load on the tensor cores."""

    name: str
    datasheet: str  # gpu_datasheet in the context of results
    arch: str
    machines: int
    hertz: float
    bytes_per_second: float


GPUS = (
    Gpu("A100 40 GB", "a100-sxm4-40gb", "sm_80", 108, 1.41e9, 1.555e12),
    Gpu("H100 SXM", "h100-sxm", "sm_90", 132, 1.755e9, 3.35e12),
    Gpu("H200", "h200", "sm_90", 132, 1.755e9, 4.8e12),
)


def loop_of(kernel: Kernel, inside: int) -> list[Instruction]:
    """The smallest loop around an address, or the entire kernel."""
    smallest = kernel.instructions
    for one in kernel.instructions:
        target = one.target
        if target is None or not one.name.startswith("BRA") or not target <= inside <= one.address:
            continue
        body = [i for i in kernel.instructions if target <= i.address <= one.address]
        smallest = min(smallest, body, key=len)
    return smallest


def _streamed(kernel: Kernel, rule: Rule) -> int:
    """Bytes that a thread moves to and from memory in one iteration of its loop."""
    loads = loads_in_flight(kernel, rule) if rule.loads else 0
    if kernel.function.startswith("Gemv"):
        loads = rule.loads
    return loads * rule.width + (vector_stores(kernel) * VECTOR if rule.stores else 0)


def _iteration(kernel: Kernel, rule: Rule) -> int:
    """Instructions of that iteration."""
    moved = longest_flight(kernel, rule.width) if rule.loads else []
    first = moved or [one for one in kernel.instructions if one.name.startswith("STG")]
    return len(loop_of(kernel, first[0].address))


def share(kernel: Kernel, rule: Rule, gpu: Gpu) -> float:
    """The bound as a share of the datasheet's bandwidth, from memory itself, the issue rate, and the loads in
    flight.
    """
    cycles = _iteration(kernel, rule) / SCHEDULERS
    issued = _streamed(kernel, rule) * WARP / cycles * gpu.hertz * gpu.machines
    bounds = [ATTAINABLE, issued / gpu.bytes_per_second]
    if rule.loads:
        bounds.append(bytes_in_flight(kernel, rule) / NEEDED_IN_FLIGHT[gpu.arch])
    return min(bounds)


def _rows(kernels: Iterable[Kernel]) -> dict[str, dict[str, Kernel]]:
    rows: dict[str, dict[str, Kernel]] = {}
    for kernel in kernels:
        rows.setdefault(kernel.name, {})[kernel.arch] = kernel
    return {name.replace("__nv_bfloat16", "bf16"): by_arch for name, by_arch in rows.items()}


def expectations(kernels: Iterable[Kernel]) -> dict[str, Any]:
    """The data that tools/gpu_check compares measured kernels with."""
    shares = {}
    for name, by_arch in _rows(kernels).items():
        if rule := rule_of(by_arch[ARCHES[0]]):
            shares[name] = {gpu.datasheet: round(share(by_arch[gpu.arch], rule, gpu), 2) for gpu in GPUS}
    return {
        "what": "expected, not measured: shares of the datasheet's memory bandwidth; written by tools/kernel_table",
        "bytes_per_second": {gpu.datasheet: gpu.bytes_per_second for gpu in GPUS},
        "shares": shares,
    }


def as_json(data: dict[str, Any]) -> str:
    """One line for each kernel."""
    shares = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in data["shares"].items()]
    members = [f'"{name}": {json.dumps(data[name])}' for name in ("what", "bytes_per_second")]
    members.append('"shares": {\n ' + ",\n ".join(shares) + "\n}")
    return "{" + ",\n".join(members) + "}\n"


def _cells(by_arch: dict[str, Kernel]) -> list[str]:
    registers = [str(by_arch[arch].registers) for arch in ARCHES]
    rule = rule_of(by_arch[ARCHES[0]])
    if rule is None:
        return [*registers, *[""] * (len(ARCHES) + len(GPUS))]
    flights = [f"{bytes_in_flight(by_arch[arch], rule) / 1024:.0f}" if rule.loads else "" for arch in ARCHES]
    return [*registers, *flights, *[f"{share(by_arch[gpu.arch], rule, gpu):.2f}" for gpu in GPUS]]


def lines(kernels: Iterable[Kernel]) -> list[str]:
    """Markdown: one row for each kernel."""
    heads = [f"registers {arch}" for arch in ARCHES] + [f"KiB {arch}" for arch in ARCHES]
    heads += [f"expected {gpu.name}" for gpu in GPUS]
    table = [f"| kernel | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
    for name, by_arch in _rows(kernels).items():
        table.append(" | ".join([f"| `{name}`", *_cells(by_arch)]) + " |")
    return table
