# SPDX-License-Identifier: Apache-2.0
"""The table of docs/gpus.md, and its expected shares as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kernel_code.expected import GPUS, share
from kernel_code.rules import bytes_in_flight, rule_of
from kernel_code.sass import Kernel

ARCHES = ("sm_80", "sm_90")


def _cells(by_arch: dict[str, Kernel]) -> list[str]:
    registers = [str(by_arch[arch].registers) for arch in ARCHES]
    rule = rule_of(by_arch[ARCHES[0]])
    if rule is None:
        return [*registers, *[""] * (len(ARCHES) + len(GPUS))]
    flights = [f"{bytes_in_flight(by_arch[arch], rule) / 1024:.0f}" if rule.loads else "" for arch in ARCHES]
    return [*registers, *flights, *[f"{share(by_arch[gpu.arch], rule, gpu):.2f}" for gpu in GPUS]]


def _rows(kernels: Iterable[Kernel]) -> dict[str, dict[str, Kernel]]:
    rows: dict[str, dict[str, Kernel]] = {}
    for kernel in kernels:
        rows.setdefault(kernel.name, {})[kernel.arch] = kernel
    return {name.replace("__nv_bfloat16", "bf16"): by_arch for name, by_arch in rows.items()}


def expectations(kernels: Iterable[Kernel]) -> dict[str, Any]:
    """What tools/gpu_check holds measured kernels against."""
    shares = {}
    for name, by_arch in _rows(kernels).items():
        if rule := rule_of(by_arch[ARCHES[0]]):
            shares[name] = {gpu.datasheet: round(share(by_arch[gpu.arch], rule, gpu), 2) for gpu in GPUS}
    return {
        "what": "expected, not measured: shares of the datasheet's memory bandwidth; written by tools/kernel_table",
        "bytes_per_second": {gpu.datasheet: gpu.bytes_per_second for gpu in GPUS},
        "shares": shares,
    }


def lines(kernels: Iterable[Kernel]) -> list[str]:
    """Markdown: one row a kernel."""
    heads = [f"registers {arch}" for arch in ARCHES] + [f"KiB {arch}" for arch in ARCHES]
    heads += [f"expected {gpu.name}" for gpu in GPUS]
    table = [f"| kernel | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
    for name, by_arch in _rows(kernels).items():
        table.append(" | ".join([f"| `{name}`", *_cells(by_arch)]) + " |")
    return table
