# SPDX-License-Identifier: Apache-2.0
"""Requirements on the machine code of each kernel, and their violations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kernel_code.sass import Instruction, Kernel

VECTOR = 16  # bytes of the widest load
WARP = 32
# Limits of a multiprocessor.
REGISTERS = 65536
MOST_THREADS = 2048
MOST_BLOCKS = 32
# Bytes in flight per multiprocessor that keep memory busy: 1.5 times bandwidth times latency.
NEEDED_IN_FLIGHT = {"sm_80": 12 * 1024, "sm_90": 30 * 1024}
# An inlined integer division, and the test whether a float quotient needs a call.
DIVISION = re.compile(r"I2F\S*\.RP|FCHK")
LOCAL_MEMORY = re.compile(r"LDL|STL")
# Reads from L2 (.STRONG.GPU), or evicts the line first (.EF).
PAST_L1 = re.compile(r"(LDG|STG)\S*\.(STRONG\.GPU|EF)\b")
ONCE = re.compile(r"LDG\S*\.NA\b")  # without a line of L1
NARROW_STORE = re.compile(r"STG(?!\S*\.128)")


class Rule(NamedTuple):
    """A streaming kernel: vectors that each thread has in flight and stores, and the usual threads of a block."""

    loads: int = 0
    stores: int = 0
    threads: int = 0  # 0: its maximum
    width: int = VECTOR  # bytes of a load
    past_l1: bool = False  # it measures memory beyond the L1
    once: bool = False  # it reads each vector once, and keeps the L1 for operands that it reads again


# A row of 4,096 columns. fp32 takes two loads for each vector of eight columns.
_ROWS = Rule(loads=4, stores=4, threads=128)
# A row of 256 columns, in a warp.
_SHORT_ROWS = Rule(loads=1, stores=1, threads=128)
# By function, or by function and arguments where these differ. None: it moves no data.
RULES: dict[str, Rule | None] = {
    "Spin": None,
    "ReadStream": Rule(loads=4, past_l1=True),
    "CopyStream": Rule(loads=4, stores=4, past_l1=True),
    "UpdateStream": Rule(loads=4, stores=4, past_l1=True),
    "WriteStream": Rule(stores=4, past_l1=True),
    "RmsNormRows": _ROWS,
    "LayerNormRows": _ROWS,
    "SoftmaxRows": _ROWS,
    **{
        f"{rows}<{element}, Warp>": _SHORT_ROWS
        for rows in ("RmsNormRows", "LayerNormRows", "SoftmaxRows")
        for element in ("float", "__nv_bfloat16")
    },
    "GemvRows": Rule(loads=4, once=True),
    # Rows of 8, 24, 40 … columns are only aligned to 8 bytes.
    "GemvRows<Int8Weights<uint2, 8>, 1>": Rule(loads=4, width=8, once=True),
}


def rule_of(kernel: Kernel) -> Rule | None:
    return RULES[kernel.name] if kernel.name in RULES else RULES[kernel.function]


def _of_width(loads: list[Instruction], width: int) -> int:
    return sum(load.bytes == width for load in loads)


def longest_flight(kernel: Kernel, width: int = VECTOR) -> list[Instruction]:
    """The loads from global memory that are issued before the first use of one of them, where most of them have this
    width. Code order is execution order in these kernels: branches end a flight."""
    flights: list[list[Instruction]] = [[]]
    pending: set[int] = set()
    for one in kernel.instructions:
        if pending & one.registers or one.name.startswith(("BRA", "BAR", "EXIT")):
            flights.append([])
            pending = set()
        if one.name.startswith("LDG"):
            flights[-1].append(one)
            first = int(one.operands.partition(",")[0].strip().lstrip("R").split(".")[0] or 0)
            pending |= set(range(first, first + max(1, one.bytes // 4)))
    return max(flights, key=lambda flight: _of_width(flight, width))


def loads_in_flight(kernel: Kernel, rule: Rule) -> int:
    return _of_width(longest_flight(kernel, rule.width), rule.width)


def vector_stores(kernel: Kernel) -> int:
    return sum(one.name.startswith("STG") and one.bytes == VECTOR for one in kernel.instructions)


def resident_threads(kernel: Kernel, threads: int) -> int:
    """On a multiprocessor, in blocks of this size. (Shared memory limits none of our kernels.)"""
    of_warp = -(-kernel.registers * WARP // 256) * 256  # registers are allocated in units of 256
    warps = -(-threads // WARP)
    blocks = min(REGISTERS // of_warp // warps, MOST_THREADS // threads, MOST_BLOCKS)
    return blocks * threads


def bytes_in_flight(kernel: Kernel, rule: Rule) -> int:
    """On a multiprocessor, counting streamed loads only."""
    streamed = loads_in_flight(kernel, rule)
    if kernel.function.startswith("Gemv"):
        streamed = min(streamed, rule.loads)  # the other loads are of x, which is cached
    return streamed * rule.width * resident_threads(kernel, rule.threads or kernel.most_threads)


def _calls_arithmetic(kernel: Kernel, one: Instruction) -> bool:
    """Kernels call divisions, and on sm_80 code that lets diverged lanes reconverge: a shuffle that waits for them, or
    the rest of the kernel, which does not return."""
    if not one.name.startswith("CALL"):
        return False
    for called in kernel.instructions:
        if called.address >= (one.target or 0) and called.name.startswith(("WARPSYNC", "EXIT", "RET")):
            return called.name.startswith("RET")
    return True


def violations(kernel: Kernel) -> Iterator[str]:
    """One line for each rule that the kernel breaks."""
    if kernel.stack or kernel.local or any(LOCAL_MEMORY.match(one.name) for one in kernel.instructions):
        yield f"it spills: {max(kernel.stack, kernel.local)} bytes of local memory"
    for one in kernel.instructions:
        if DIVISION.match(one.name) or _calls_arithmetic(kernel, one):
            yield f"it divides: {one.name} at {one.address:#x}"
            break
    if not kernel.most_threads:
        yield "it has no __launch_bounds__"
        return
    if resident_threads(kernel, kernel.most_threads) < kernel.most_threads:
        yield f"{kernel.registers} registers do not fit {kernel.most_threads} threads"
        return
    if rule := rule_of(kernel):
        yield from _stream_violations(kernel, rule)


def _stream_violations(kernel: Kernel, rule: Rule) -> Iterator[str]:
    loads = loads_in_flight(kernel, rule)
    if loads < rule.loads:
        yield f"{loads} loads of {rule.width} bytes in flight, not {rule.loads}"
    needed = NEEDED_IN_FLIGHT[kernel.arch]
    if rule.loads and rule.width == VECTOR and (in_flight := bytes_in_flight(kernel, rule)) < needed:
        yield f"{in_flight} bytes in flight on a multiprocessor, not {needed}"
    for one in kernel.instructions:
        if rule.past_l1 and one.name.startswith(("LDG", "STG")) and not PAST_L1.match(one.name):
            yield f"it reads or writes through L1: {one.name} at {one.address:#x}"
            break
    once = sum(ONCE.match(one.name) is not None for one in longest_flight(kernel, rule.width))
    if rule.once and once < rule.loads:
        yield f"{once} loads in flight bypass L1, not {rule.loads}: what is read once evicts what is read again"
    bypassing = sum(ONCE.match(one.name) is not None for one in kernel.instructions)
    if rule.once and bypassing > rule.loads:
        yield f"{bypassing} loads bypass L1, not {rule.loads}: what is read again comes from L2 each time"
    if not rule.stores:
        return
    if (stores := vector_stores(kernel)) < rule.stores:
        yield f"{stores} stores of {VECTOR} bytes, not {rule.stores}"
    for one in kernel.instructions:
        if NARROW_STORE.match(one.name):
            yield f"it stores {one.bytes} bytes at a time: {one.name} at {one.address:#x}"
            break
