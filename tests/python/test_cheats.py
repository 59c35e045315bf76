# SPDX-License-Identifier: Apache-2.0
"""What makes a result fail, and the reasons that it gives. Which cheats are caught at all, by this and by other
harnesses, is the question of tests/cheats.
"""

from __future__ import annotations

import _thread
import ctypes
import dataclasses
import fcntl
import gc
import itertools
import mmap
import os
import re
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import roofbench
import torch
from numpy.typing import NDArray
from roofbench import _measure

Floats = NDArray[np.float32]
_SIZE = 160
_FEW: dict[str, Any] = {"max_time": 0.02, "max_warmup_time": 0.01, "max_samples": 20, "max_wall": 30}


def _inputs() -> tuple[Floats, Floats]:
    generator = np.random.default_rng(5)
    return tuple(generator.standard_normal((_SIZE, _SIZE), dtype=np.float32) for _ in range(2))  # type: ignore[return-value]


def product(a: Any, b: Any) -> Any:
    return a @ b


def _judged(cheat: Callable[..., Any], *args: Any, reference: Callable[..., Any] = product, **options: Any) -> str:
    result = roofbench.measure(cheat, *(args or _inputs()), reference=reference, **(_FEW | options))
    assert not result.ok
    assert result.line()["verdict"] == "failed"
    assert result.roof is None
    return result.failure


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_result_kept_by_a_part_of_the_content(cache: str) -> None:
    kept: dict[bytes, Floats] = {}

    def cheat(a: Floats, b: Floats) -> Floats:
        key = a[0].tobytes() + b[0].tobytes()
        if key not in kept:
            kept[key] = a @ b
        return kept[key]

    assert "wrong result" in _judged(cheat, cache=cache)
    for _ in range(8):  # with few samples, whose changes may be where the cheat looks
        kept.clear()
        assert "wrong result" in _judged(cheat, cache=cache, max_samples=1)


def test_result_kept_where_calls_follow_each_other() -> None:
    """The checks of single calls have long pauses; the timed calls of a warm row have none."""
    kept: list[Floats] = []
    ended = 0.0

    def cheat(a: Floats, b: Floats) -> Floats:
        nonlocal ended
        if time.perf_counter() - ended > 1e-3 or len(kept) < 2:
            kept.append(a @ b)
        ended = time.perf_counter()
        return kept[-1]

    assert "wrong result" in _judged(cheat, cache="warm", max_samples=200)


def test_calls_in_the_middle_of_the_samples_are_looked_at() -> None:
    calls = itertools.count()
    kept: list[Floats] = []

    def cheat(a: Floats, b: Floats) -> Floats:
        if not 10 <= next(calls) < 150:
            kept[:] = [a @ b]
        return kept[0]

    options: dict[str, Any] = {"max_samples": 200, "max_time": 30, "max_warmup_time": 1e-9}
    assert re.search("wrong result: .*, in a timed call", _judged(cheat, cache="warm", **options))


@pytest.mark.parametrize("is_honest", [True, False])
def test_result_brought_up_to_date_where_elements_changed(is_honest: bool) -> None:
    """In the time that this takes of the elements that changed, of which samples have few."""
    seen: list[Floats] = []

    def work(x: Floats) -> Floats:
        changed = 1.0 if is_honest or not seen else float(np.mean(x != seen[0]))
        if not seen:
            seen.append(x.copy())
        time.sleep(2e-3 * changed)
        return x + x

    x = np.random.default_rng(5).standard_normal((64, 128), dtype=np.float32)[:, :64]  # 16 of 64 rows change in part
    result = roofbench.measure(work, x, reference=lambda x: x + x, cache="warm", **_FEW)
    assert result.ok and result.median and result.median >= 1.5e-3, result
    assert any("measured with other values for each call" in note for note in result.notes) != is_honest


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize("size", [400, 4000])
def test_hardly_any_call_finds_values_of_an_earlier_one(cache: Any, size: int) -> None:
    """So that a result which is kept by every byte of the arguments gains nothing. Few calls take as long as several
    share a sample."""
    calls: list[bytes] = []

    def keep(x: Floats) -> Floats:
        calls.append(x.tobytes())
        return x

    x = np.random.default_rng(7).standard_normal(size, dtype=np.float32)
    options = _FEW | {"max_samples": 200, "max_time": 30, "roofs": False}
    assert roofbench.measure(keep, x, reference=lambda x: x[:], cache=cache, **options).ok
    checks = 12 + 35  # two sets of values by turns, and the first one in turns with others
    assert len(calls) > 200
    assert len(calls) - len(set(calls)) <= checks + len(calls) / 50


def test_result_kept_of_an_operand_of_which_elements_cannot_change_places() -> None:
    """Fast calls find other values so rarely that their median says nothing."""
    generator = np.random.default_rng(5)
    distances = generator.random((512, 512), dtype=np.float32)
    distances += distances.T
    kept: dict[tuple[float, float], Floats] = {}
    computed: list[bool] = []

    def density(x: Floats) -> Any:
        return np.exp(-x).sum(1)

    def checked(x: Floats) -> Any:
        if not np.array_equal(x, x.T):
            raise ValueError("distances are symmetric")
        return density(x)

    def cheat(x: Floats) -> Any:
        key = x[7, 9].item(), x[100, 300].item()
        computed.append(key not in kept)
        if computed[-1]:
            kept.clear()
            kept[key] = density(x)
        return kept[key].copy()

    options = _FEW | {"max_samples": 200, "max_time": 0.2}
    honest = roofbench.measure(density, distances, reference=checked, cache="warm", **options)
    for _ in range(5):  # on a busy machine copies take as long as the work at times
        kept.clear()
        result = roofbench.measure(cheat, distances, reference=checked, cache="warm", **options)
        if not result.ok or any("measured with other values" in note for note in result.notes):
            break
    assert honest.ok and result.ok and honest.median and result.median, result.failure
    assert any("measured with other values for each call" in note for note in result.notes), result.notes
    # Not by times, of which those of a busy machine say little: all timed calls were honest.
    assert all(computed[-len(result.samples) :]), (sum(computed), len(computed), len(result.samples))


def test_turned_values_are_not_the_first_ones_scaled() -> None:
    """Of those the median, the largest or a norm is the first result scaled."""
    numbers = np.random.default_rng(5).random(100_001, dtype=np.float32) + 1
    first = np.sort(numbers)
    subject = _measure.Subject(np.median, (numbers,), _measure.Options(reference=np.median))
    subject.prepare()
    for _ in range(5):
        (turned,) = subject._turned()
        factors = np.sort(turned) / first
        assert factors.std() > 0.02 * factors.mean()
    subject.finish()


def test_values_of_one_structure_change_as_well() -> None:
    calls: list[bytes] = []

    def factor(x: Any) -> Any:
        calls.append(x.tobytes())
        return np.linalg.cholesky(x)

    x = np.random.default_rng(7).standard_normal((40, 40))
    options: dict[str, Any] = {**_FEW, "tolerance": 1e-9, "max_samples": 200, "max_time": 30}
    assert roofbench.measure(factor, x @ x.T + 40 * np.eye(40), reference=np.linalg.cholesky, **options).ok
    assert len(set(calls)) > 10


def test_operand_changed_in_a_timed_call_alone() -> None:
    calls = itertools.count()

    def cheat(a: Floats, b: Floats) -> Floats:
        if next(calls) == 12:
            a[...] = 0
        return a @ b

    # Time enough for all samples on a busy machine, too.
    assert "the function changed argument 0" in _judged(cheat, max_time=30)


def test_right_for_the_given_values_only() -> None:
    a, b = _inputs()
    answer = a @ b
    assert "wrong result" in _judged(lambda a, b: answer.copy(), a, b)


def test_zeros_for_zeros() -> None:
    zeros = np.zeros((_SIZE, _SIZE), np.float32)
    assert "wrong result" in _judged(lambda a, b: zeros, np.zeros_like(zeros), np.zeros_like(zeros))


def test_identity_for_positive_inputs() -> None:
    def relu(x: Any) -> Any:
        return np.maximum(x, 0)

    x = np.abs(_inputs()[0])
    assert "result is memory of argument 0, where the reference makes a new array" in _judged(
        lambda x: x, x, reference=relu
    )


def test_half_precision_sums() -> None:
    def cheat(x: Floats) -> Any:
        return x.astype(np.float16).sum(axis=1).astype(np.float32)

    assert "wrong result" in _judged(cheat, _inputs()[0], reference=lambda x: x.sum(axis=1))


def test_part_of_the_rows() -> None:
    def cheat(a: Floats, b: Floats) -> Floats:
        out = np.zeros((_SIZE, _SIZE), np.float32)
        out[: _SIZE // 2] = a[: _SIZE // 2] @ b
        return out

    assert f"off in {_SIZE * _SIZE // 2} of {_SIZE * _SIZE} elements" in _judged(cheat)


def test_other_shape() -> None:
    assert f"shape [{_SIZE}] where the reference gives [{_SIZE}, {_SIZE}]" in _judged(lambda a, b: a[0] @ b)


def test_fewer_results() -> None:
    assert "1 result where the reference gives 2" in _judged(
        lambda a, b: (a @ b,), reference=lambda a, b: (a @ b, a.sum())
    )


def test_no_result() -> None:
    assert "0 results where the reference gives 1" in _judged(lambda a, b: None)


def test_input_mutated_so_that_the_reference_agrees() -> None:
    def cheat(a: Floats, b: Floats) -> Floats:
        a[...] = 0
        return np.zeros((_SIZE, _SIZE), np.float32)

    assert "the function changed argument 0" in _judged(cheat)


def test_weights_of_a_module_mutated() -> None:
    def cheat(layer: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            layer.weight.zero_()
            assert layer.bias is not None
        return layer.bias.expand(x.shape[0], -1).clone()

    linear = torch.nn.Linear(32, 32)
    reason = _judged(cheat, linear, torch.randn(8, 32), reference=lambda layer, x: layer(x))
    assert "the function changed argument 0.weight" in reason


def test_generator() -> None:
    def cheat(a: Floats, b: Floats) -> Iterator[Floats]:
        yield a @ b

    assert "result is a builtins.generator, which may compute when it is read" in _judged(cheat)


def test_lazy_object() -> None:
    class Lazy:
        def __init__(self, a: Floats, b: Floats) -> None:
            self._a, self._b = a, b

        def __array__(self, dtype: Any = None, copy: Any = None) -> Floats:
            return self._a @ self._b

    assert "Lazy, which may compute when it is read" in _judged(Lazy)


def test_result_kept_between_inputs_that_take_long() -> None:
    kept: dict[bytes, Floats] = {}

    def double(a: Any) -> Any:
        return a * 2

    def cheat(a: Any) -> Any:
        key = a[:4].tobytes()
        if key not in kept:
            kept.clear()
            kept[key] = double(a)
            time.sleep(0.01)
        return kept[key].copy()

    def inputs(seed: int) -> list[Any]:
        time.sleep(0.01)
        return [np.random.default_rng(seed).standard_normal(64, dtype=np.float32)]

    options = _FEW | {"max_time": 0.1, "max_samples": 100}
    result = roofbench.measure(cheat, *inputs(0), reference=double, inputs=inputs, **options)
    assert result.median is not None
    # Where others slow the calls that keep, most samples find other values in the first place.
    assert result.median > 0.01, result.notes


def test_lazy_fields() -> None:
    @dataclasses.dataclass
    class Output:
        product: Floats

    @dataclasses.dataclass(init=False)
    class Lazy(Output):
        __slots__ = ("_of",)

        def __init__(self, a: Floats, b: Floats) -> None:
            self._of = a, b

        @property
        def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
            return {"product": self._of[0] @ self._of[1]}

    plain = roofbench.measure(lambda a, b: Output(a @ b), *_inputs(), reference=product, **_FEW)
    assert plain.ok, plain.failure
    assert "Lazy, which may compute when it is read" in _judged(Lazy)


def test_lazy_number() -> None:
    class Lazy(complex):
        @property
        def real(self) -> float:
            return float(_inputs()[0].sum())

    assert "Lazy, which may compute when it is read" in _judged(lambda a, b: Lazy(), reference=lambda a, b: a.sum())


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="by numbers of Linux on x86-64")
def test_result_whose_memory_is_supplied_when_it_is_read() -> None:
    """Its pages are there already, so that nobody has to."""
    memory = mmap.mmap(-1, _SIZE * _SIZE * 4 // mmap.PAGESIZE * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    result = np.frombuffer(memory, np.float32).reshape(_SIZE, _SIZE)
    result[:] = 1
    server = ctypes.CDLL(None).syscall(323, os.O_CLOEXEC | os.O_NONBLOCK)
    if server < 0:
        pytest.skip("userfaultfd is not permitted here")
    try:
        fcntl.ioctl(server, 0xC018AA3F, struct.pack("QQQ", 0xAA, 0, 0))
        fcntl.ioctl(server, 0xC020AA00, struct.pack("QQQQ", result.ctypes.data, result.nbytes, 1, 0))

        def cheat(a: Floats, b: Floats) -> Floats:
            return np.matmul(a, b, out=result)

        assert "memory that is filled when it is read" in _judged(cheat)
    finally:
        os.close(server)


def test_windows_for_copies() -> None:
    def windows(a: Floats, _b: Floats) -> Floats:
        return np.lib.stride_tricks.sliding_window_view(a.copy(), 3, axis=1)

    def laid_out(a: Floats, b: Floats) -> Floats:
        return np.ascontiguousarray(windows(a, b))

    assert "elements of result share memory, where the reference's have their own" in _judged(
        windows, reference=laid_out
    )
    both = roofbench.measure(windows, *_inputs(), reference=windows, **_FEW)
    assert both.ok, both.failure


def test_a_short_factor_lowers_no_precision() -> None:
    def scaled(a: Any, b: Any, scale: Any) -> Any:
        return (a @ b) * scale

    def cheat(a: Any, b: Any, scale: Any) -> Any:
        return scaled(a.astype(np.float32), b.astype(np.float32), scale).astype(np.float64)

    generator = np.random.default_rng(5)
    operands = *generator.standard_normal((2, _SIZE, _SIZE)), generator.random(_SIZE, dtype=np.float32)
    assert "wrong result" in _judged(cheat, *operands, reference=scaled)
    honest = roofbench.measure(scaled, *operands, reference=scaled, **_FEW)
    assert honest.ok, honest.failure


def test_what_is_not_compared_is_noted() -> None:
    def louder(a: Any, b: Any) -> Any:
        return (a * np.geomspace(1, 1e12, _SIZE, dtype=np.float32)[:, None]) @ b

    def signs(a: Floats, _b: Floats) -> Floats:
        return np.sign(a)

    quiet = roofbench.measure(louder, *_inputs(), reference=louder, **_FEW)
    assert any("of result is so small beside the rest that zeros would pass" in note for note in quiet.notes)
    narrow = roofbench.measure(lambda a, b: signs(a, b).astype(np.int8), *_inputs(), reference=signs, **_FEW)
    assert narrow.ok, narrow.failure
    assert "result is int8, the reference gives float32" in narrow.notes
    as_wide = roofbench.measure(lambda a, b: signs(a, b).astype(np.int32), *_inputs(), reference=signs, **_FEW)
    assert "result is int32, the reference gives float32" in as_wide.notes

    def add(a: Floats, b: Floats) -> None:
        a += b

    changed = roofbench.measure(add, *_inputs(), reference=add, mutates=[0], **_FEW)
    assert "every call finds the same values in argument 0 (restored)" in changed.notes

    def chosen(a: Any, places: Any) -> Any:
        return a[places]

    places = np.array([0, _SIZE - 1])
    indexed = roofbench.measure(chosen, _inputs()[0], places, reference=chosen, mutates=[1], **_FEW)
    assert indexed.ok, indexed.failure
    assert "every call finds the same values in argument 1 (restored)" in indexed.notes

    def doubled(a: Floats, out: Floats) -> None:
        np.multiply(a, 2, out=out)

    def added(a: Any, out: Any) -> None:
        out += a

    def copied(a: Any, out: Any) -> None:
        out.copy_(a)

    for write, a, out in (
        (doubled, _inputs()[0], np.zeros((_SIZE, _SIZE), np.float32)),
        (copied, torch.randn(9, 9).bfloat16(), torch.zeros(9, 9, dtype=torch.bfloat16)),
    ):
        written = roofbench.measure(write, a, out, reference=write, mutates=[1], **_FEW)
        assert not written.notes, "an output"
        summed = roofbench.measure(added, a, out, reference=added, mutates=[1], **_FEW)
        assert summed.notes == ("every call finds the same values in argument 1 (restored)",)
    assert not roofbench.measure(product, *_inputs(), reference=product, **_FEW).notes

    def masked(a: Floats, seed: int) -> Any:
        return a * np.random.default_rng(seed).integers(0, 2, a.shape)

    kept = roofbench.measure(masked, _inputs()[0], 3, reference=masked, **_FEW)
    assert kept.notes == ("every call finds the same values in argument 1 (a seed)",)

    def penalty(model: torch.nn.Linear) -> torch.Tensor:
        return (model.weight**2).sum()

    alone = roofbench.measure(penalty, torch.nn.Linear(9, 9), reference=penalty, grads=False, **_FEW)
    assert alone.notes == ("every call finds the same values in argument 0 (a module)",)
    made = roofbench.measure(product, *_inputs(), reference=product, inputs=lambda _seed: _inputs(), **_FEW)
    assert made.notes == ("calls find the values that inputs= makes alone: it may make the results with them",)


def test_sums_of_so_many_numbers_that_some_would_do_are_noted() -> None:
    def mean(a: Any) -> Any:
        return a.mean()

    numbers = np.random.default_rng(0).random(1 << 22, dtype=np.float32)
    some = roofbench.measure(lambda a: a[::5].mean(), numbers, reference=mean, **_FEW)
    assert any(re.search(r"result: that of one in \d+ numbers would pass", note) for note in some.notes), some
    whole = roofbench.measure(lambda a: a[::5].mean(), numbers, reference=mean, reduction=1000, **_FEW)
    assert "wrong result" in whole.failure
    assert not roofbench.measure(mean, numbers, reference=mean, reduction=1000, **_FEW).notes
    assert not roofbench.measure(mean, numbers - 0.5, reference=mean, **_FEW).notes, "a part has another sum"

    def means(x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)

    rows = (torch.rand(64, 1 << 16) + 1).bfloat16()
    many = roofbench.measure(means, rows, reference=means, **_FEW)
    assert any(re.search(r"result: that of one in \d+ numbers would pass", note) for note in many.notes), many


def test_subclass_of_an_array() -> None:
    class Lazy(np.ndarray[Any, Any]):
        pass

    assert "a subclass of numpy.ndarray" in _judged(lambda a, b: (a @ b).view(Lazy))


def test_work_left_to_a_thread() -> None:
    returned = threading.Event()

    def cheat(a: Floats, b: Floats) -> Floats:
        out = np.zeros((_SIZE, _SIZE), np.float32)

        def work() -> None:
            returned.wait(0.05)
            np.matmul(a, b, out=out)

        threading.Thread(target=work).start()
        return out

    reason = _judged(cheat)
    assert "changed after the call had returned" in reason or "wrong result" in reason


def test_result_written_by_a_hidden_thread() -> None:
    """Without a reference, and without an object of the module threading, the change itself gives it away."""
    out = np.zeros(10)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            out[0] += 1

    def cheat(a: Floats, b: Floats) -> Any:
        if not out[1]:
            out[1] = 1
            _thread.start_new_thread(write, ())
        return out

    expected = "the result changed after the call had returned"
    try:  # a busy machine may not run the thread between two looks
        assert any(expected in roofbench.measure(cheat, *_inputs(), **_FEW).failure for _ in range(100))
    finally:
        stop.set()


def test_thread_left_running() -> None:
    stop = threading.Event()

    def cheat(a: Floats, b: Floats) -> Floats:
        def spin() -> None:
            while not stop.is_set():
                sum(range(1000))

        if threading.active_count() < 3:
            threading.Thread(target=spin, name="helper", daemon=True).start()
        return a @ b

    try:
        assert "the thread helper still worked when the call returned" in _judged(cheat)
    finally:
        stop.set()


def _replacing(place: Any, name: str, new: Any, answer: Callable[..., Any]) -> Callable[..., Any]:
    def cheat(*args: Any) -> Any:
        setattr(place, name, new)
        return answer(*args)

    return cheat


@pytest.mark.parametrize("name", ["perf_counter", "perf_counter_ns", "monotonic", "time"])
def test_clock_replaced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, name, getattr(time, name))  # restores it after the test
    assert f"the function replaced time.{name}" in _judged(_replacing(time, name, lambda: 0, product))


def test_clock_replaced_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    assert "time.perf_counter is replaced in this process" in _judged(product)


def test_a_replaced_clock_does_not_change_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler has a clock of its own: of a call that waits, each sample has at least that time."""
    for name in ("perf_counter", "perf_counter_ns", "monotonic", "time"):
        monkeypatch.setattr(time, name, getattr(time, name))

    def cheat(a: Floats, b: Floats) -> Floats:
        for name in ("perf_counter", "perf_counter_ns", "monotonic", "time"):
            setattr(time, name, lambda: 0)
        threading.Event().wait(0.002)
        return a @ b

    result = roofbench.measure(cheat, *_inputs(), max_time=0.02)
    assert result.failure.startswith("the function replaced time.")
    assert result.first_call is not None and result.first_call >= 0.002


@pytest.mark.parametrize(
    ("place", "name"),
    [(np, "allclose"), (np.testing, "assert_allclose"), (torch, "allclose"), (torch.testing, "assert_close")],
)
def test_comparison_replaced(place: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, name, getattr(place, name))
    empty = np.empty((_SIZE, _SIZE), np.float32)
    cheat = _replacing(place, name, lambda *args, **options: True, lambda a, b: empty)
    assert "wrong result" in _judged(cheat)
    monkeypatch.undo()
    monkeypatch.setattr(place, name, getattr(place, name))
    cheat = _replacing(place, name, lambda *args, **options: True, product)
    assert f"{place.__name__}.{name}" in _judged(cheat)


def test_check_of_roofbench_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from roofbench import _check

    monkeypatch.setattr(_check, "difference", _check.difference)
    cheat = _replacing(_check, "difference", lambda *args: "", lambda a, b: np.zeros((_SIZE, _SIZE), np.float32))
    assert "the function replaced roofbench._check.difference" in _judged(cheat)


def test_code_of_the_reference_replaced() -> None:
    def reference(a: Any, b: Any) -> Any:
        return a @ b

    def cheat(a: Floats, b: Floats) -> Floats:
        reference.__code__ = (lambda a, b: a * 0).__code__
        return a @ b

    assert "the function replaced the code of the reference" in _judged(cheat, reference=reference)


def test_memory_of_the_check_written() -> None:
    """Expected values that are found by the stack cannot be written."""
    hits = []

    def cheat(a: Floats, b: Floats) -> Floats:
        out = np.zeros((_SIZE, _SIZE), np.float32)
        subject = next(frame.f_locals["self"] for frame in _frames() if frame.f_code.co_name == "_sample")
        for expected in subject._expected.values():
            for value in expected.exact.results:
                with pytest.raises(ValueError):
                    value.values()[...] = out
                hits.append(value)
        return out

    assert "wrong result" in _judged(cheat)
    assert hits


def _frames() -> Iterator[Any]:
    frame: Any = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


@pytest.mark.parametrize(
    ("act", "undo", "what"),
    [
        (gc.disable, gc.enable, "whether garbage is collected"),
        (lambda: sys.settrace(lambda *args: None), lambda: sys.settrace(None), "the trace function"),
        (lambda: sys.setprofile(lambda *args: None), lambda: sys.setprofile(None), "the profile function"),
        (lambda: sys.setswitchinterval(1.0), lambda: sys.setswitchinterval(0.005), "the switch interval"),
        (lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32), "dtype"),
        (lambda: torch.set_float32_matmul_precision("medium"),
         lambda: torch.set_float32_matmul_precision("highest"), "precision of float32 products"),
        (lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True), "gradient mode"),
    ],
)  # fmt: skip
def test_state_of_the_process_changed(act: Callable[[], Any], undo: Callable[[], Any], what: str) -> None:
    def cheat(a: Floats, b: Floats) -> Floats:
        act()
        return a @ b

    trace, profile = sys.gettrace(), sys.getprofile()
    try:
        reason = _judged(cheat)
    finally:
        undo()
        sys.settrace(trace)
        sys.setprofile(profile)
    assert reason.startswith("the function left ") and what in reason


@pytest.mark.parametrize(("function", "times"), [(product, 10**6), (lambda a, b: None, 1000)], ids=["work", "nothing"])
def test_faster_than_every_roof(function: Callable[..., Any], times: int) -> None:
    """Also in few samples, and while other programs run. The samples are kept."""
    work = roofbench.work.matmul(times * _SIZE, _SIZE, _SIZE, "fp32")
    result = roofbench.measure(function, *_inputs(), work=work, **_FEW)
    assert re.fullmatch(r"the case ran at \S+ times the highest rate of the .+ roof in this run, .+", result.failure)
    assert result.samples and result.roof is None


def test_gradient_left_out() -> None:
    def cheat(x: torch.Tensor) -> None:
        x.grad = torch.zeros_like(x)

    x = torch.randn(64, 64, requires_grad=True)
    assert "wrong gradient" in _judged(cheat, x, reference=lambda x: (x**2).sum().backward())


def test_error_in_a_later_call() -> None:
    calls = itertools.count()

    def cheat(a: Floats, b: Floats) -> Floats:
        if next(calls) == 28:
            raise RuntimeError("no more\nsecond line")
        return a @ b

    options = _FEW | {"max_time": 30, "max_samples": 40, "max_warmup_time": 1e-9}  # in chunks of at most ten
    result = roofbench.measure(cheat, *_inputs(), reference=product, **options)
    assert result.failure == "the function raised RuntimeError: no more"
    assert 0 < len(result.samples) <= 28 and result.median
    line = result.line()
    assert (line["verdict"], line["reason"]) == ("failed", result.failure)
    assert line["samples_s"] == pytest.approx(result.samples)


def test_every_call_compiles() -> None:
    """torch.compile during the samples voids them."""
    import torch._dynamo.utils as utilities

    def cheat(a: Floats, b: Floats) -> Floats:
        utilities.counters["frames"]["total"] += 1  # what a compilation of a frame counts
        return a @ b

    assert "more frames during the samples, which are void" in _judged(cheat)
