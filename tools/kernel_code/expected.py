# SPDX-License-Identifier: Apache-2.0
"""What share of a GPU's memory roof the machine code of a kernel lets expect: a model, which no GPU has confirmed."""

from __future__ import annotations

from typing import NamedTuple

from kernel_code.flight import VECTOR, longest_flight, loop_of
from kernel_code.rules import NEEDED_IN_FLIGHT, WARP, Rule, bytes_in_flight
from kernel_code.sass import Kernel

SCHEDULERS = 4  # of a multiprocessor: each issues an instruction of a warp a cycle
# Memory's own rows and refreshes leave that much of its datasheet.
ATTAINABLE = 0.92


class Gpu(NamedTuple):
    """NVIDIA's datasheets; clock without load on the tensor cores."""

    name: str
    datasheet: str  # as results name it: gpu_datasheet of their context
    arch: str
    machines: int
    hertz: float
    bytes_per_second: float


GPUS = (
    Gpu("A100 40 GB", "a100-sxm4-40gb", "sm_80", 108, 1.41e9, 1.555e12),
    Gpu("H100 SXM", "h100-sxm", "sm_90", 132, 1.755e9, 3.35e12),
    Gpu("H200", "h200", "sm_90", 132, 1.755e9, 4.8e12),
)


def _streamed(kernel: Kernel, rule: Rule) -> int:
    """Bytes to and from memory of a thread in one turn of its loop, or in all where it has none."""
    loads = longest_flight(kernel, rule.width).of_width(rule.width) if rule.loads else 0
    if kernel.function.startswith("Gemv"):
        loads = rule.loads
    stores = (
        sum(one.name.startswith("STG") and one.bytes == VECTOR for one in kernel.instructions) if rule.stores else 0
    )
    return loads * rule.width + stores * VECTOR


def _turn(kernel: Kernel, rule: Rule) -> int:
    """Instructions of that turn."""
    moved = longest_flight(kernel, rule.width).loads if rule.loads else []
    first = moved or [one for one in kernel.instructions if one.name.startswith("STG")]
    return len(loop_of(kernel, first[0].address))


def issue_rate(kernel: Kernel, rule: Rule, gpu: Gpu) -> float:
    """Bytes/s at which the instructions of all multiprocessors move data."""
    cycles = _turn(kernel, rule) / SCHEDULERS
    return _streamed(kernel, rule) * WARP / cycles * gpu.hertz * gpu.machines


def share(kernel: Kernel, rule: Rule, gpu: Gpu) -> float:
    """Of the datasheet's bandwidth: what instructions, loads on their way and memory itself allow."""
    bounds = [ATTAINABLE, issue_rate(kernel, rule, gpu) / gpu.bytes_per_second]
    if rule.loads:
        bounds.append(bytes_in_flight(kernel, rule) / NEEDED_IN_FLIGHT[gpu.arch])
    return min(bounds)
