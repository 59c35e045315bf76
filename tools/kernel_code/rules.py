# SPDX-License-Identifier: Apache-2.0
"""What the machine code of each kernel has to be, and the lines that say where it is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kernel_code.flight import VECTOR, longest_flight
from kernel_code.sass import Instruction, Kernel

REGISTERS = 65536  # of a multiprocessor
MOST_THREADS = 2048
MOST_BLOCKS = 32
WARP = 32
# Of a multiprocessor, so that memory is never idle: bandwidth times latency, and a half more.
NEEDED_IN_FLIGHT = {"sm_80": 12 * 1024, "sm_90": 30 * 1024}
# An integer division in line, and the question whether a quotient of floats needs a call.
DIVISION = re.compile(r"I2F\S*\.RP|FCHK")
LOCAL_MEMORY = re.compile(r"LDL|STL")
# Asks the L2 (.STRONG.GPU), or leaves no line behind (.EF: evicted first).
PAST_L1 = re.compile(r"(LDG|STG)\S*\.(STRONG\.GPU|EF)\b")
NARROW_STORE = re.compile(r"STG(?!\S*\.128)")


class Rule(NamedTuple):
    """A kernel that streams: its vectors of a thread in flight and stored, and the threads of a block that is usual."""

    loads: int = 0
    stores: int = 0
    threads: int = 0  # 0: the most that it allows
    width: int = VECTOR  # bytes of a load
    past_l1: bool = False  # it measures what lies behind the cache of a multiprocessor


# A row of 4,096 columns. fp32 takes two loads a vector of eight columns.
_ROWS = Rule(loads=4, stores=4, threads=128)
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
    "GemvRows": Rule(loads=4),
    # Rows of 8, 24, 40 … columns have no vectors that are aligned to more.
    "GemvRows<Int8Weights<uint2, 8>, 1>": Rule(loads=4, width=8),
}


def rule_of(kernel: Kernel) -> Rule | None:
    return RULES[kernel.name] if kernel.name in RULES else RULES[kernel.function]


def resident_threads(kernel: Kernel, threads: int) -> int:
    """Of a multiprocessor, in blocks of so many. (Shared memory bounds none of ours.)"""
    of_warp = -(-kernel.registers * WARP // 256) * 256  # registers come in units of 256
    warps = -(-threads // WARP)
    blocks = min(REGISTERS // of_warp // warps, MOST_THREADS // threads, MOST_BLOCKS)
    return blocks * threads


def bytes_in_flight(kernel: Kernel, rule: Rule) -> int:
    """Of a multiprocessor: what the kernel streams, not all that it loads."""
    streamed = longest_flight(kernel, rule.width).of_width(rule.width)
    if kernel.function.startswith("Gemv"):
        streamed = min(streamed, rule.loads)  # the others are of x, which lies in a cache
    return streamed * rule.width * resident_threads(kernel, rule.threads or kernel.most_threads)


def _calls_arithmetic(kernel: Kernel, one: Instruction) -> bool:
    """What kernels call is a division, or the place where lanes that came apart meet again (sm_80): a shuffle that
    waits for them, or the rest of the kernel, which does not return."""
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
    rule = rule_of(kernel)
    if rule is None:
        return
    loads = longest_flight(kernel, rule.width).of_width(rule.width)
    if loads < rule.loads:
        yield f"{loads} loads of {rule.width} bytes in flight, not {rule.loads}"
    needed = NEEDED_IN_FLIGHT[kernel.arch]
    if rule.loads and rule.width == VECTOR and (in_flight := bytes_in_flight(kernel, rule)) < needed:
        yield f"{in_flight} bytes in flight on a multiprocessor, not {needed}"
    for one in kernel.instructions:
        if rule.past_l1 and one.name.startswith(("LDG", "STG")) and not PAST_L1.match(one.name):
            yield f"it reads or writes through L1: {one.name} at {one.address:#x}"
            break
    if rule.stores:
        stores = sum(one.name.startswith("STG") and one.bytes == VECTOR for one in kernel.instructions)
        if stores < rule.stores:
            yield f"{stores} stores of {VECTOR} bytes, not {rule.stores}"
        for one in kernel.instructions:
            if NARROW_STORE.match(one.name):
                yield f"it stores {one.bytes} bytes at a time: {one.name} at {one.address:#x}"
                break
