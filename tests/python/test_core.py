# SPDX-License-Identifier: Apache-2.0
"""The extension: what Python passes in arrives, what the sampler gives comes out, and errors are those of Python."""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import os
import signal
import statistics
import time
import weakref
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from roofbench import _core
from roofbench._measure import Sampled
from roofbench._result import Result

QUICK = _core.SampleOptions(warmup_iters=0, exact_samples=True, max_samples=4, roof_share=0)


@pytest.fixture(scope="module")
def machine() -> _core.Machine:
    return _core.Machine(2)


@pytest.fixture(scope="module")
def sample(machine: _core.Machine) -> Callable[..., Sampled]:
    def take(*arguments: Any, **options: Any) -> Sampled:
        line, *others = machine.sample(*arguments, **options)
        return Sampled(json.loads(line), *others)

    return take


def test_costs_are_the_formulas_of_the_program() -> None:
    product = _core.matmul(2, 3, 5, "bf16")
    assert product.flops == {"bf16": 60} and product.bytes_read == (10 + 15) * 2 and product.bytes_written == 12
    assert _core.adamw(10).bytes == 280
    assert _core.attention(8, 8, 4, "fp32", causal=True).total_flops < _core.attention(8, 8, 4, "fp32").total_flops
    both = _core.Cost({"fp32": 7}, bytes_updated=3) + product.repeated(2)
    assert both.total_flops == 127 and both.bytes == 6 + 2 * product.bytes


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: _core.matmul(1, 1, 1, "half"), "dtype 'half': expected fp32, tf32, bf16"),
    (lambda: _core.gemv(1, 1, "int3"), "precision 'int3': expected fp32"),
    (lambda: _core.softmax(1, 1, "fp32", direction="up"), "direction 'up'"),
    (lambda: _core.decoder_decode("gpt", "bf16", 1), "model 'gpt': expected tinyllama_1b"),
    (lambda: _core.Cost(bytes_read=-1), "bytes_read=-1.0: expected a number from 0"),
    (lambda: _core.Cost({"fp32": math.nan}), "flops=nan"),
    (lambda: _core.Journal().append("{}"), "not a line of a journal"),
    (lambda: _core.FamilyGrid("f", "", [("n", ["1"], None, "")], [("m", 2)]), "there is no axis m"),
    (lambda: _core.plan([], ["n=1"], ""), "there is no family|no family has an axis"),
    (lambda: _core.hash_of_file("/missing"), "cannot read /missing"),
    (lambda: _core.unmeasured_line("a", {}, "lost", ""), "verdict 'lost'"),
    (lambda: _core.mismatch(array("f", [1]), array("f", [1]), 0.1), "float64"),
    (lambda: _core.mismatch(array("d", [1, 2]), array("d", [1]), 0.1), "arrays of one shape"),
    (lambda: _core.Machine(-1), "negative number of threads"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_arguments_are_value_errors_that_say_what_is_valid(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_function_gets_its_arguments_and_the_last_result_is_kept(sample: Callable[..., Sampled]) -> None:
    seen: list[tuple[int, int]] = []

    def add(first: int, second: int) -> int:
        seen.append((first, second))
        return first + second

    # With a preparation, each sample is one call.
    measured = sample(add, (1, 2), before_step=lambda last: (), options=QUICK)
    assert seen == [(1, 2)] * 4 and measured.last_result == 3
    assert len(measured.line["samples_s"]) == 4 and measured.line["roof"]["name"] == ""


def test_each_call_follows_its_preparation(sample: Callable[..., Sampled]) -> None:
    order: list[object] = []
    block = array("d", range(1000))
    address, length = block.buffer_info()

    def before(last: object) -> list[tuple[int, int]]:
        order.append(last)
        return [(address, 8 * length)]

    def call() -> object:
        order.append("call")
        return block

    sample(call, before_step=before, options=QUICK)
    assert order == [None, "call", *[block, "call"] * 3], "with the last result"
    assert block[999] == 999


def test_a_result_is_freed_before_the_next_call(sample: Callable[..., Sampled]) -> None:
    """As one that the caller drops: the next call may have its memory, which `before_step` evicts."""
    kept: list[weakref.ref[object]] = []

    def function() -> object:
        assert not any(one() for one in kept)
        result: set[int] = set()
        kept.append(weakref.ref(result))
        return result

    assert sample(function, options=QUICK).last_result == set() and len(kept) > 1


def test_errors_and_interrupts_pass_through(sample: Callable[..., Sampled]) -> None:
    with pytest.raises(ZeroDivisionError):
        sample(lambda: 1 // 0)
    with pytest.raises(LookupError, match="of the hook"):
        sample(int, interrupted=lambda: (_ for _ in ()).throw(LookupError("of the hook")))
    with pytest.raises(KeyboardInterrupt):
        sample(lambda: os.kill(os.getpid(), 2))
    assert sample(int, interrupted=lambda: True).line["stop"] == "interrupted"


def test_an_exception_after_samples_keeps_them(sample: Callable[..., Sampled]) -> None:
    left = iter(range(30))
    options = _core.SampleOptions(warmup_iters=0, exact_samples=True, max_samples=40, roof_share=0)  # in chunks of ten
    measured = sample(lambda: next(left), before_step=lambda last: (), options=options)
    seconds = measured.line["samples_s"]
    assert isinstance(measured.raised, StopIteration) and 20 <= len(seconds) <= 30
    assert measured.line["median_s"] == pytest.approx(statistics.median(seconds))
    assert sample(int, options=QUICK).raised is None


def test_a_roof_is_measured_beside_the_step(machine: _core.Machine, sample: Callable[..., Sampled]) -> None:
    block = array("d", bytes(8 << 20))
    address, length = block.buffer_info()
    cost = _core.read(8 * length)
    measured = sample(lambda: block.count(1), cost=cost, before_step=lambda last: [(address, 8 * length)])
    assert measured.line["roof"]["name"] == "memory" and {"roof", "disturbed"} & measured.line["counters"].keys()
    assert float(machine.context()["roof_read"]) > 0


def test_a_step_far_above_every_roof_is_impossible(sample: Callable[..., Sampled]) -> None:
    """Claimed work that was not done: a cached result, a skipped call."""
    quiet = [sample(int, cost=_core.read(1e9)) for _ in range(5)]
    assert all({"disturbed"} == {"roof", "disturbed"} & measured.line["counters"].keys() for measured in quiet)
    assert all(measured.impossible or measured.line["noise"] for measured in quiet), "noise alone excuses it"


def test_work_that_is_left_to_the_next_line_of_python_is_timed(sample: Callable[..., Sampled]) -> None:
    seconds = 0.005

    def work(_: int | None) -> int:
        time.sleep(seconds)
        return 0

    later = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(work)
    measured = sample(lambda: ctypes.pythonapi.Py_AddPendingCall(later, None), options=QUICK)
    assert min(measured.line["samples_s"]) >= seconds


def test_counters_and_limits_are_those_of_the_program(sample: Callable[..., Sampled]) -> None:
    measured = sample(int, options=QUICK, cost=_core.read(1))
    result = Result("f/n:16", measurement=measured.line, axes={"n": "16"})
    known = {counter["name"] for counter in json.loads(_core.contract())["counters"]}
    assert set(result.counters) - {"a100_mem_util"} <= known
    assert _core.fewest_for_interval == 6 and result.interval is None
    assert _core.noise_reasons().keys() == {"ci", "drift", "others", "stolen", "moved"}
    assert (_core.human_share(0.0994), _core.human_share(0.0996)) == ("9.94 %", "10.0 %")
    assert _core.figure_widths() == {"time": 9, "FLOP/s": 13, "bytes/s": 10, "roof": 7, "reference": 8, "ci": 7}


def test_ends_and_limits_are_told_in_the_words_of_the_program() -> None:
    assert _core.describe_end(3) == "ended with exit status 3"
    assert _core.describe_end(-signal.SIGSEGV) == "crashed (SIGSEGV, Segmentation fault)"
    limit = _core.CaseLimit(0.05)
    assert not limit.is_reached() and 0 < limit.next_call() <= 0.05
    while not limit.is_reached():
        time.sleep(limit.next_call())
    assert limit.reason() == "not finished after 0.05 s (--case_timeout)"
    assert _core.printable("a\x1b[31m \u202e", 100) == r"a\x1b[31m \xe2\x80\xae"


def test_mismatches_are_judged_as_in_the_program() -> None:
    one = array("d", [1, 2, 3])
    assert _core.mismatch(one, one, 0) == ""
    assert "(element 2) is 4 where the reference has 3" in _core.mismatch(array("d", [1, 2, 4]), one, 1e-3)
    many = array("d", [1]) * 64
    assert "a root mean square of 0.06" in _core.mismatch(array("d", [1.06]) * 64, many, 0.1)
    assert _core.relative_tolerance("bf16", reduction=4096) == 2**-6 + 4 * 2**-23 * 64


@pytest.mark.parametrize("runtime", ["", "torch"])
def test_a_forked_process_has_threads_of_its_own(
    machine: _core.Machine, sample: Callable[..., Sampled], runtime: str
) -> None:
    if runtime:  # brings an OpenMP runtime
        importlib.import_module(runtime)
    machine.calibrate(_core.read(1))
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that waits for the threads of its parent
        sample(int, cost=_core.read(1), options=QUICK)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
