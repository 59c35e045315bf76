# SPDX-License-Identifier: Apache-2.0
"""How many loads a thread has on the way before the first instruction that needs one of them."""

from __future__ import annotations

from typing import NamedTuple

from kernel_code.sass import Instruction, Kernel

VECTOR = 16  # bytes of the widest load


class Flight(NamedTuple):
    """The loads from global memory that are issued together, at the best place of a kernel."""

    loads: list[Instruction]

    def of_width(self, width: int) -> int:
        return sum(load.bytes == width for load in self.loads)


def longest_flight(kernel: Kernel, width: int = VECTOR) -> Flight:
    """The one with the most loads of this width, in the order of the code, which for the kernels here is that of their
    execution: branches end a flight."""

    def key(flight: list[Instruction]) -> int:
        return Flight(flight).of_width(width)

    best: list[Instruction] = []
    loads: list[Instruction] = []
    pending: set[int] = set()
    for one in kernel.instructions:
        is_load = one.name.startswith("LDG")
        if pending & one.registers or one.name.startswith(("BRA", "BAR", "EXIT")):
            best = max(best, loads, key=key)
            loads, pending = [], set()
        if is_load:
            loads.append(one)
            first = int(one.operands.partition(",")[0].strip().lstrip("R").split(".")[0] or 0)
            pending |= set(range(first, first + max(1, one.bytes // 4)))
    return Flight(max(best, loads, key=key))


def loop_of(kernel: Kernel, inside: int) -> list[Instruction]:
    """The smallest loop around an address; without one all of the kernel."""
    smallest = kernel.instructions
    for one in kernel.instructions:
        target = one.target
        if target is None or not one.name.startswith("BRA") or not target <= inside <= one.address:
            continue
        body = [i for i in kernel.instructions if target <= i.address <= one.address]
        smallest = min(smallest, body, key=len)
    return smallest
