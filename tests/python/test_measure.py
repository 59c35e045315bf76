# SPDX-License-Identifier: Apache-2.0
"""The output and state of a measurement, and the arrays that it finds."""

from __future__ import annotations

import dataclasses
import functools
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import roofbench
import torch
from built_program import Run
from roofbench import _arrays, _check, _core, _machine, _measure
from roofbench._result import Result
from roofreport.io.load import load
from roofreport.io.result import State
from roofreport.io.schemas import violation

_FEW: dict[str, Any] = {"max_time": 0.02, "max_warmup_time": 0.01, "max_samples": 20, "max_wall": 30}
_X = np.linspace(1, 2, 300, dtype=np.float32)


def _double(x: Any) -> Any:
    return 2 * x


def _measured(**options: Any) -> Result:
    return roofbench.measure(_double, _X, reference=lambda x: x + x, **(_FEW | options))


# Results.


def test_no_work_no_roof() -> None:
    result = _measured()
    assert result.ok and result.roof is None and result.roof_name == ""
    assert "roof" not in result.counters and "FLOP/s" not in result.counters


def test_work_gives_rates_and_a_roof() -> None:
    work = roofbench.Work(flops=300, bytes_read=1200, bytes_written=1200)
    result = _measured(work=work)
    assert result.ok, result.failure
    assert result.median is not None
    assert result.counters["bytes/s"] == pytest.approx(2400 / result.median)
    assert result.roof_name
    if not result.disturbed:
        assert result.roof is not None and result.roof == result.counters["roof"]


def test_without_roofs_nothing_is_probed() -> None:
    result = _measured(work=roofbench.Work(bytes_read=1200, bytes_written=1200), roofs=False)
    assert result.ok and result.roof is None and "bytes/s" in result.counters


def test_without_a_reference_it_says_so() -> None:
    result = roofbench.measure(_double, _X, **_FEW)
    assert result.ok and not result.checked
    assert "not checked: no reference" in repr(result)
    assert "not checked" in result._repr_html_()


def test_samples_median_and_interval() -> None:
    result = _measured()
    assert result.median is not None and result.median == pytest.approx(statistics.median(result.samples))
    assert result.interval is not None and result.interval[0] <= result.median <= result.interval[1]
    few = _measured(max_samples=3)
    assert len(few.samples) == 3 and few.interval is None
    assert "few samples" in few.verdicts


def test_checks_longer_than_the_limit_are_noted() -> None:
    def slow(values: list[int]) -> int:
        time.sleep(0.02)
        return sum(values)

    options = {**_FEW, "max_samples": 1}
    short = roofbench.measure(slow, [1, 2], reference=slow, **{**options, "max_wall": 0.01})
    assert short.ok and len(short.samples) == 1
    assert re.search(r"the checks alone took [\d.]+ s, longer than max_wall=0.01", repr(short))
    failed = roofbench.measure(slow, [1, 2], reference=lambda values: time.sleep(0.02), **{**options, "max_wall": 0.01})
    assert not failed.ok and "the checks alone took" in "".join(failed.notes)
    assert "max_wall" not in repr(roofbench.measure(slow, [1, 2], reference=slow, **options))


def test_the_time_of_samples_is_not_that_of_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = _measure.Subject.samples

    def long(subject: _measure.Subject) -> _measure.Sampled:
        measured = samples(subject)
        subject.sampling_seconds += 1e6
        return measured

    monkeypatch.setattr(_measure.Subject, "samples", long)
    assert "the checks alone" not in repr(_measured(max_wall=1e-3))


def test_line_of_the_console() -> None:
    text = repr(_measured(name="twice/n:300"))
    assert text.startswith("twice/n:300  ") and "+-" in text and "\n" not in text


def test_names() -> None:
    assert _measured().name == "_double"
    assert _measured(cache="warm").name == "_double/cache:warm"
    assert roofbench.measure(lambda x: x + 1, _X, **_FEW).name == "lambda"
    assert roofbench.measure(functools.partial(_double), _X, **_FEW).name == "partial"
    compiled = torch.compile(_double), torch.compile(torch.nn.Linear(2, 3))
    assert [_measure._name(one, _measure.Options()) for one in compiled] == ["_double_compiled", "Linear_compiled"]


def test_public_names_are_listed() -> None:
    assert set(roofbench.__all__) <= set(dir(roofbench))


def _line(noise: list[str], flags: dict[str, float]) -> dict[str, Any]:
    return {"noise": noise, "counters": flags, "samples_s": [1e-3] * 9}


def test_each_verdict_has_its_why() -> None:
    flags = {"disturbed": 1.0, "throttled": 1.0, "launch_bound": 1.0}
    result = Result("case", measurement=_line(["ci", "drift", "others", "stolen"], flags))
    assert list(result.verdicts) == ["noisy", "disturbed", "throttled", "launch_bound"]
    assert result.noisy and result.disturbed and result.throttled and result.launch_bound
    for words in ("wider than 5 %", "differ by more than 10 %", "other programs", "hypervisor"):
        assert words in result.verdicts["noisy"]
    assert Result("case", measurement=_line([], {})).verdicts == {}


def test_first_call_is_not_a_sample() -> None:
    calls: list[float] = []

    def slow_at_first(x: Any) -> Any:
        if not calls:
            time.sleep(0.2)
        calls.append(0)
        return x + 1

    result = roofbench.measure(slow_at_first, _X, reference=lambda x: x + 1, **_FEW)
    assert result.ok and result.first_call is not None and result.first_call >= 0.2
    assert result.first_call not in result.samples


# The contract of results.


def test_a_record_fits_the_schema(tmp_path: Path) -> None:
    results = [_measured(name="twice/n:300", axes={"n": "300"}), Result("twice/n:400", "wrong result: \x1b[31m")]
    path = tmp_path / "record.jsonl"
    roofbench.save(results, path)
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert not violation(header, "journal", "header")
    assert lines == [json.loads(result.json()) for result in results] == [result.line() for result in results]
    for line in lines:
        assert not violation(line, "journal", "case")
    assert lines[0]["axes"] == {"n": 300, "cache": "cold"}
    loaded = load(path)
    good, bad = loaded.cases
    assert good.state is State.MEASURED and bad.state is State.FAILED
    assert good.seconds == pytest.approx(results[0].median)
    assert bad.why_not.startswith("failed: wrong result")
    known = {counter["name"] for counter in json.loads(_core.contract())["counters"]}
    assert {"samples", "ci", "noisy"} <= good.counters.keys()
    assert {name for name in good.counters if not name.startswith("a100")} <= known


def test_repetitions_of_a_name_are_numbered(tmp_path: Path) -> None:
    one = _measured(name="twice/n:300")
    one.save(tmp_path / "one.jsonl")
    roofbench.save([one, dataclasses.replace(one, name="twice/n:400"), one], tmp_path / "two.jsonl")
    shown = [(case.name, case.repetition) for case in load(tmp_path / "two.jsonl").cases]
    assert shown == [("twice/n:300", 0), ("twice/n:400", 0), ("twice/n:300", 1)]


def test_other_measurements_of_a_name_are_no_repetitions(tmp_path: Path) -> None:
    """Of several sizes, or of several functions, which a loop or a lambda calls by one name."""
    few: dict[str, Any] = {"max_time": 0.01, "max_warmup_time": 0.01, "max_samples": 6}
    arrays = [np.ones(n, np.float32) for n in (16, 64)]

    def scaled(factor: float) -> Any:
        return lambda x: x * factor

    def measured(function: Any, array: Any, **options: Any) -> Any:
        return roofbench.measure(function, array, **few, **options)

    twice = [measured(scaled(2), arrays[0], name="a") for _ in range(2)]
    roofbench.save(twice, tmp_path / "a.jsonl")
    assert [case.repetition for case in load(tmp_path / "a.jsonl").cases] == [0, 1]
    for other in (
        measured(scaled(3), arrays[0], name="a"),
        measured(scaled(2), arrays[1], name="a"),
        measured(lambda x: x + 1, arrays[0], name="a"),
        measured(functools.partial(np.multiply, 2), arrays[0], name="a"),
        measured(scaled(2), arrays[0], name="a", work=roofbench.Work(bytes_read=3)),
    ):
        with pytest.raises(ValueError, match="give each measurement its name="):
            roofbench.save([*twice, other], tmp_path / "b.jsonl")
    for of in (
        lambda n: functools.partial(np.multiply, n),
        lambda n: lambda x, n=n: x * n,
        lambda n: np.float32(n).__mul__,
    ):
        with pytest.raises(ValueError, match="give each measurement its name="):
            roofbench.save([measured(of(n), arrays[0], name="a") for n in (2, 3)], tmp_path / "b.jsonl")
    assert not (tmp_path / "b.jsonl").exists()


def test_save_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    _measured().save(tmp_path / "a.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    with pytest.raises(OSError):
        _measured().save(tmp_path / "missing" / "a.jsonl")


def test_context_has_what_reports_compare() -> None:
    facts = _machine.context()
    assert {"roofbench_version", "device_kind", "device", "threads", "cpu_isa", "python_version"} <= facts.keys()
    assert facts["torch_version"] == torch.__version__
    assert all(isinstance(value, str) for value in facts.values())


def test_a_row_says_how_many_threads_torch_had() -> None:
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert _machine.context()["threads"] == str(threads)
    finally:
        torch.set_num_threads(before)


# Arguments.


def test_values_of_the_arguments_are_those_of_before() -> None:
    x, y = np.arange(100, dtype=np.float32), torch.arange(50.0)
    roofbench.measure(lambda x, y: (x + 1, y * 2), x, y, reference=lambda x, y: (x + 1, y + y), **_FEW)
    assert np.array_equal(x, np.arange(100)) and torch.equal(y, torch.arange(50.0))


def test_values_are_restored_after_a_failure() -> None:
    x = np.arange(100, dtype=np.float32)

    def breaks(x: Any) -> Any:
        x[...] = 7
        raise ValueError("no")

    assert "the function raised ValueError: no" in roofbench.measure(breaks, x, **_FEW).failure
    assert np.array_equal(x, np.arange(100))


def test_same_seed_same_values() -> None:
    seen: list[list[bytes]] = [[], []]
    for calls in seen:

        def keep(x: Any, calls: list[bytes] = calls) -> Any:
            calls.append(x.tobytes())
            return x + 1

        assert roofbench.measure(keep, _X.copy(), reference=lambda x: x + 1, seed=3, **_FEW).ok
    assert seen[0][1] == seen[1][1] != seen[0][0]
    assert roofbench.measure(_double, _X, **_FEW).seed != roofbench.measure(_double, _X, **_FEW).seed


def test_wide_integers_beside_floats_stay() -> None:
    """They may be indices or offsets."""
    seen: set[bytes] = set()

    def look_up(table: Any, indices: Any) -> Any:
        seen.add(indices.tobytes())
        return table[indices]

    table, indices = np.arange(50, dtype=np.float32), np.arange(0, 50, 5)
    assert roofbench.measure(look_up, table, indices, reference=lambda table, indices: table[indices], **_FEW).ok
    assert seen == {indices.tobytes()}


_WITHOUT = """
import sys
sys.modules["numpy"] = sys.modules["torch"] = None
import roofbench
options = {"max_time": 0.01, "max_samples": 10}
result = roofbench.measure(sum, range(1000), work=roofbench.Work(bytes_read=1e5), roofs=False, **options)
assert result.ok and result.samples, result
right = roofbench.measure(lambda n: (n / 3, 1j), 5, reference=lambda n: (n * (1 / 3), 1j), **options)
assert right.ok and right.checked, right
wrong = roofbench.measure(lambda n: n + 1, 5, reference=lambda n: n, **options)
assert "wrong result" in wrong.failure, wrong
"""


def test_neither_numpy_nor_torch_is_needed() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stderr


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(roofbench.__file__).parents[1])}


def test_keyboard_interrupt_passes() -> None:
    def interrupted(x: Any) -> Any:
        raise KeyboardInterrupt

    x = np.arange(100, dtype=np.float32)
    with pytest.raises(KeyboardInterrupt):
        roofbench.measure(interrupted, x, **_FEW)
    assert np.array_equal(x, np.arange(100))


def test_error_of_the_reference_is_the_reason() -> None:
    def broken(x: Any) -> Any:
        raise RuntimeError("no such\nthing")

    result = roofbench.measure(_double, _X, reference=broken, **_FEW)
    assert result.failure == "the reference raised RuntimeError: no such"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cache": "hot"}, "expected 'cold' or 'warm'"),
        ({"mutates": [1]}, "the call has 1 argument, of which the first is number 0"),
        ({"max_time": -1}, "max_time=-1: expected a number above 0"),
        ({"max_wall": float("nan")}, "max_wall=nan: expected a number above 0"),
        ({"max_samples": "9"}, "max_samples='9': expected a number above 0"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        roofbench.measure(_double, _X, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"work": 100}, r"work=100: expected roofbench\.Work\("),
        ({"mutates": 0}, r"mutates=0: .*mutates=\[0\]"),
        ({"reference": lambda: 1}, "the reference cannot be called with the 1 given arguments: too many positional"),
    ],
)
def test_options_of_a_wrong_type(options: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        roofbench.measure(_double, _X, **options)


def test_no_arguments() -> None:
    with pytest.raises(TypeError, match=r"the function cannot be called .* 'x'; they follow the function"):
        roofbench.measure(_double)


def test_work_of_another_dtype_is_noted() -> None:
    def notes(x: Any, dtype: str) -> str:
        work = roofbench.work.softmax(1, 300, dtype)
        return repr(roofbench.measure(_double, x, work=work, roofs=False, **_FEW))

    assert "work reads 0.5 times the bytes of the arrays: is it of their dtype?" in notes(_X, "bf16")
    assert "dtype" in notes(_X.astype(np.float64), "fp32")
    assert "dtype" not in notes(_X, "fp32")


def test_new_memory_in_each_call_is_noted() -> None:
    x = np.ones(12 << 20, np.float32)  # beyond what glibc keeps of freed memory
    y = np.empty_like(x)
    assert "page faults a call: it takes new memory" in repr(roofbench.measure(lambda a: a + 1, x, **_FEW))
    assert "page faults" not in repr(roofbench.measure(lambda a, b: np.add(a, 1, out=b), x, y, mutates=[1], **_FEW))


def test_nothing_is_checked_where_no_number_is_expected() -> None:
    x = np.full(300, np.nan, np.float32)
    result = roofbench.measure(_double, x, reference=_double, **_FEW)
    assert result.ok and not result.checked
    assert "checked nothing: the reference gives NaN and infinities only" in repr(result)
    x[7] = 1
    assert roofbench.measure(_double, x, reference=_double, **_FEW).checked


def test_not_a_function() -> None:
    with pytest.raises(TypeError, match="expected a function, not one of type int"):
        roofbench.measure(3, _X)  # type: ignore[arg-type]


def test_arrays_that_are_not_on_the_processor() -> None:
    with pytest.raises(TypeError, match=r"argument 0\['x'\] is on meta"):
        roofbench.measure(_double, {"x": torch.empty(3, device="meta")})

    class OfCuPy:
        __cuda_array_interface__ = None

    class OfJax:
        def __dlpack__(self) -> Any:
            raise BufferError

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    for array in (OfCuPy(), OfJax()):
        with pytest.raises(TypeError, match="argument 0 is on a GPU: GPUs are not measured from Python yet"):
            roofbench.measure(_double, array)
        with pytest.raises(TypeError, match=r"the function\[0\] is on a GPU"):
            roofbench.measure(lambda x, kept=array: x, _X)


def test_arrays_that_are_not_of_numbers() -> None:
    with pytest.raises(TypeError, match="elements of object"):
        roofbench.measure(_double, np.array([object()]))
    with pytest.raises(TypeError, match="sparse"):
        roofbench.measure(_double, torch.eye(3).to_sparse())


# Arrays.


@dataclasses.dataclass
class _Box:
    content: Any


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 3)
        self.register_buffer("table", torch.zeros(4))


def _places(value: Any, **options: Any) -> list[str]:
    return [array.where for array in _arrays.walk(value, "v", **options)]


def test_arrays_are_found_in_nested_objects() -> None:
    x, y = np.zeros(3), torch.zeros(2)
    assert _places({"a": [x, (y, 3)], "b": _Box({"c": x})}) == ["v['a'][0]", "v['a'][1][0]"]  # x once
    assert _places(_Model()) == ["v.inner.weight", "v.inner.bias", "v.table"]
    cycle: list[Any] = [x]
    cycle.append(cycle)
    assert _places(cycle) == ["v[0]"]


_global = np.zeros(5)


def test_arrays_of_a_function_are_operands() -> None:
    inside = np.zeros(3)

    def nested(x: Any) -> Any:
        return inside + x

    def outer(x: Any, default: Any = np.ones(2)) -> Any:  # noqa: B008
        return nested(x) + _global

    found = _places(outer, into_functions=True)
    assert {place.rpartition(".")[2] for place in found} >= {"inside", "_global"}
    assert len(found) == 3
    assert _places(functools.partial(outer, np.zeros(1)), into_functions=True)[-1].endswith("[0]")


def _address_cases() -> Iterator[tuple[str, Any]]:
    base = np.arange(24, dtype=np.int16).reshape(4, 6)
    yield "numpy", base
    yield "step", base[::2, 1::3]
    yield "backward", base[::-1, ::-2]
    yield "tensor", torch.arange(24, dtype=torch.int16).reshape(4, 6)
    yield "transposed tensor", torch.arange(24, dtype=torch.int16).reshape(4, 6).t()[1::2]
    yield "expanded tensor", torch.arange(4, dtype=torch.int16).expand(3, 4)
    yield "scalar tensor", torch.tensor(5, dtype=torch.int16)
    yield "empty tensor", torch.empty(0, 3, dtype=torch.int16)
    yield "buffer", bytearray(range(9))


@pytest.mark.parametrize(("name", "value"), list(_address_cases()), ids=[name for name, _ in _address_cases()])
def test_views_are_read_where_they_lie(name: str, value: Any) -> None:
    array = _arrays.array_of(value, name)
    wanted = np.asarray(value.numpy() if isinstance(value, torch.Tensor) else value)
    assert np.array_equal(array.read(), wanted)
    low, size = array.memory()
    assert size == 0 or low <= array.data.__array_interface__["data"][0] < low + size
    if array.is_writable and array.data.size:
        array.data[...] = 7
        assert np.all(np.asarray(value) == 7)


def test_ranges_cover_every_element() -> None:
    x = np.zeros((10, 10), np.float32)
    low, size = _arrays.array_of(x[2:4, ::-3], "x").memory()
    start = x.__array_interface__["data"][0]
    assert start + 2 * 40 <= low and low + size <= start + 4 * 40
    assert size == 40 + 9 * 4 + 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_elements_without_a_numpy_type(dtype: torch.dtype) -> None:
    x = torch.linspace(-3, 3, 50).to(dtype)
    array = _arrays.array_of(x, "x")
    values = _arrays.floats(array.read(), array.dtype)
    assert values.tolist() == x.float().tolist()
    if dtype is torch.bfloat16:
        assert np.array_equal(_arrays.storage(values, array), array.data)


def test_dlpack() -> None:
    class Foreign:
        """An array of another library."""

        def __init__(self) -> None:
            self.base = np.arange(4.0)

        def __dlpack__(self, **options: Any) -> Any:
            return self.base.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    foreign = Foreign()
    array = _arrays.array_of(foreign, "x")
    assert np.array_equal(array.data, foreign.base)
    assert array.memory()[0] == foreign.base.__array_interface__["data"][0]


# Fresh values.


def _fresh(value: Any, gently: bool = False) -> Any:
    array = _arrays.array_of(value, "x")
    return _arrays.fresh_values(array, array.read(), np.random.default_rng(0), gently, replaces=False)


def test_fresh_values_are_of_the_same_kind() -> None:
    positive = np.linspace(1, 9, 1000, dtype=np.float32)
    fresh = _fresh(positive)
    assert fresh.dtype == np.float32 and (fresh > 0).all() and (fresh <= 9).all()
    assert (fresh > positive).any(), "in another order"
    assert not np.array_equal(np.sort(fresh), positive), "scaled"
    gentle = _fresh(positive, gently=True)
    assert (np.diff(gentle) > 0).all() and not np.array_equal(gentle, positive)
    whole = _fresh(np.arange(9, dtype=np.int8))
    assert np.array_equal(np.sort(whole), np.arange(9)) and not np.array_equal(whole, np.arange(9))
    assert len(set(_fresh(np.zeros(50)))) > 40
    masked = _fresh(np.array([1, -np.inf, 2, np.nan]))
    assert masked[1] == -np.inf and np.isnan(masked[3])
    assert masked[2] == 2 * masked[0] < 2


@pytest.mark.parametrize("part", ["0:-1:2", "1:-1:2", "0:-1:4", "0:50000:1", "50000:-1:1", "0:25000:1"])
def test_a_part_of_fresh_values_is_no_measure_of_the_rest(part: str) -> None:
    begin, end, step = map(int, part.split(":"))
    array = _arrays.array_of(np.ones(100_000, np.float32), "x")
    for seed in range(20):
        original = np.linspace(1, 1.001, 100_000, dtype=np.float32)
        fresh = _arrays.fresh_values(array, original, np.random.default_rng(seed), gently=False, replaces=False)
        assert fresh.min() >= 0.5 and fresh.max() < 1.001
        assert abs(fresh[begin:end:step].mean() / fresh.mean() - 1) > 0.01


# The copies of the reference.


def test_reference_gets_private_copies_in_double_precision() -> None:
    seen: list[Any] = []

    def reference(x: Any, t: Any, model: Any) -> Any:
        seen.append((x.dtype, t.dtype, model.inner.weight.dtype, id(x) not in given, id(model) not in given))
        x += 100
        return t.sum()

    arguments = (np.ones(3, np.float32), torch.ones(4, dtype=torch.bfloat16), _Model())
    given = {id(argument) for argument in arguments}
    result = roofbench.measure(lambda x, t, model: t.float().sum(), *arguments, reference=reference, **_FEW)
    assert result.ok, result.failure
    assert (np.dtype("float64"), torch.float64, torch.float64, True, True) in seen
    assert (np.dtype("float32"), torch.bfloat16, torch.float32, True, True) in seen
    assert np.array_equal(arguments[0], np.ones(3))


def test_copies_keep_identities_and_structures() -> None:
    x = np.ones(3, np.float32)
    empty: list[int] = []
    copied = _arrays.Copier(double=True)({"a": [x, (x, 1)], "b": _Box(x), "c": "text", "d": empty})
    assert copied["d"] == empty and copied["d"] is not empty, "the reference may fill it"
    assert copied["a"][0] is copied["a"][1][0] is copied["b"].content
    assert copied["a"][0].dtype == np.float64 and copied["c"] == "text" and isinstance(copied["a"][1], tuple)


def test_functions_that_call_themselves_are_copied() -> None:
    weight = np.full(2, 3, np.float32)

    def power(x: Any, n: int) -> Any:
        return x if n == 0 else power(x * weight, n - 1)

    copier = _arrays.Copier(double=True)
    function = copier.function(power)
    weight[...] = 0
    assert function(np.ones(2), 2).tolist() == [9, 9]


# Tolerances.


def test_tolerance_follows_from_the_coarsest_type_and_the_sums() -> None:
    def allowed(dtypes: list[str], reduction: float) -> float:
        return _check.tolerance(dtypes, reduction, None).default

    fp32, bf16 = (allowed([name], 1) for name in ("float32", "bfloat16"))
    assert fp32 == _core.relative_tolerance("fp32") < bf16 == _core.relative_tolerance("bf16")
    assert allowed(["float32", "bfloat16"], 1) == bf16
    assert allowed(["float32"], 100) > fp32
    assert 0 < allowed(["float64"], 100) < 1e-13
    assert allowed(["int8", "bool"], 100) == 0


def test_tolerance_decides() -> None:
    off = 1e-3
    options: dict[str, Any] = {"reference": _double, **_FEW}
    assert "wrong result" in roofbench.measure(lambda x: x * (2 + off), _X, **options).failure
    assert roofbench.measure(lambda x: x * (2 + off), _X, tolerance=4 * off, **options).ok


def test_whole_numbers_are_compared_exactly() -> None:
    """Beyond the integers of double precision, whatever the tolerance, with and without numpy's types."""
    x = np.array([[1, 2**53, 7], [2**53, 0, -1]])
    options: dict[str, Any] = {"tolerance": 0.5, **_FEW}
    right = roofbench.measure(lambda x: x.astype(np.int32) * 0, x, reference=lambda x: x * 0, **options)
    assert right.ok and right.checked, right.failure
    wrong = roofbench.measure(lambda x: x + (x > 2**50), x, reference=lambda x: x, inputs=lambda _: [x], **options)
    assert "wrong result: off in 2 of 6 elements, the first (element 1) is 9007199254740993" in wrong.failure
    assert "where the reference has 9007199254740992" in wrong.failure
    off = roofbench.measure(lambda n: 2**53 + 1, 1, reference=lambda n: 2**53, **options)
    assert "off in 1 of 1 elements, the first (element 0) is 9007199254740993" in off.failure


def _scale(x: Any) -> Any:
    return np.abs(x).max(axis=1, keepdims=True) / 127


def _quantized(x: Any, scale: Any) -> Any:
    return np.rint(x * (np.float32(1) / scale)).astype(np.int8), scale


_ROWS = np.random.default_rng(0).standard_normal((40, 1000), dtype=np.float32)
_ROWS[:, 0] = np.abs(_ROWS).max(axis=1)  # and 127 halves of a quantum, ties whose rounding is an accident
_ROWS[:, 1:128] = _ROWS[:, :1] * ((np.arange(127, dtype=np.float32) + 0.5) / 127)


def _of_quantizing(reference: Any, scale: float = 1, **options: Any) -> str:
    # The rows stay as they are.
    given = options | {"inputs": lambda seed: [_ROWS]}
    return roofbench.measure(
        lambda x: _quantized(x, _scale(x) * scale), _ROWS, reference=reference, **given, **_FEW
    ).failure


def test_ties_of_a_quantizing_kernel_may_go_either_way() -> None:
    """By the value before rounding. A scale that is half a percent off moves values by a quantum, too, and is found."""
    assert not _of_quantizing(lambda x: (x / _scale(x), _scale(x)))
    wrong = _of_quantizing(lambda x: (x / _scale(x), _scale(x) * 1.005), scale=1.005)
    assert re.search(r"wrong result 0: off in \d+ of 40000 elements, .* before rounding", wrong)


def test_quanta_are_allowed_by_tolerance_alone() -> None:
    def rounded(x: Any) -> Any:
        return np.rint(x / _scale(x)).astype(np.int8), _scale(x)

    exactly = _of_quantizing(rounded)
    assert "wrong result 0" in exactly
    assert "let the reference return the value before rounding, or allow quanta by tolerance=" in exactly
    for tolerance in ([1, None], {0: 1}):
        assert not _of_quantizing(rounded, tolerance=tolerance)
    assert "wrong result 0" in _of_quantizing(rounded, tolerance={1: 1})
    more = _of_quantizing(lambda x: (rounded(x)[0] + 3, _scale(x)), tolerance=[2, None])
    assert "(allowed: 2 quanta)" in more


def test_each_result_has_its_tolerance() -> None:
    def off(x: Any) -> Any:
        return x * 1.01, x * 1.0001

    def measured(tolerance: Any) -> str:
        return roofbench.measure(off, _X, reference=lambda x: (x, x), tolerance=tolerance, **_FEW).failure

    assert "wrong result 0" in measured(None) and "wrong result 0" in measured({1: 0.1})
    assert "wrong result 1" in measured({0: 0.1})
    assert not measured([0.1, 0.001])
    assert (
        measured([0.1] * 3)
        == "tolerance=[0.1, 0.1, 0.1]: the reference gives 2 outputs, of which the first is number 0"
    )

    def filling(x: Any, out: Any, factor: float = 1.01) -> Any:
        np.multiply(x, factor, out=out)
        return x * 1.0

    options: dict[str, Any] = {"reference": lambda x, out: filling(x, out, 1.0), "mutates": [1], **_FEW}
    arguments = (_X, np.zeros_like(_X))
    assert "argument" in roofbench.measure(filling, *arguments, tolerance={0: 0.1}, **options).failure
    assert roofbench.measure(filling, *arguments, tolerance={1: 0.1}, **options).ok, "arguments come after results"
    for wrong, kind in (("1e-3", TypeError), ([None, "a"], TypeError), ({"a": 1}, TypeError), ([-1.0], ValueError)):
        with pytest.raises(kind, match="tolerance="):
            measured(wrong)


def test_a_coarser_result_is_named() -> None:
    x = torch.linspace(1, 2, 300)
    failure = roofbench.measure(lambda x: torch.exp(x).bfloat16(), x, reference=torch.exp, **_FEW).failure
    given = re.search(r"it is bfloat16 where the reference gives float32: if it may be, pass tolerance=(\S+)", failure)
    assert given
    options: dict[str, Any] = {"reference": torch.exp, "tolerance": float(given[1]), **_FEW}
    assert roofbench.measure(lambda x: torch.exp(x).bfloat16(), x, **options).ok


def test_memory_that_the_function_makes_is_cold_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and gradients get that of the last ones, which are in the caches: copies ran at 1.4 times the roof."""
    x = torch.ones(100, requires_grad=True)

    def step(x: Any) -> Any:
        (x * x).sum().backward()
        return 2 * x.detach()

    seen: list[tuple[set[int], list[tuple[int, int]]]] = []
    prepare = _measure.Subject._prepare

    def watched(subject: _measure.Subject, last: Any) -> list[tuple[int, int]]:
        made = {tensor.data_ptr() for tensor in (last, x.grad) if tensor is not None}
        seen.append((made, prepare(subject, last)))
        return seen[-1][1]

    monkeypatch.setattr(_measure.Subject, "_prepare", watched)
    for cache in ("cold", "warm"):
        seen.clear()
        assert roofbench.measure(step, x, cache=cache, roofs=False, **_FEW).ok
        after_calls = [(made, ranges) for made, ranges in seen if len(made) == 2]
        assert len(after_calls) > 5
        for made, ranges in after_calls:
            held = all(any(low <= address < low + size for low, size in ranges) for address in made)
            assert held if cache == "cold" else not ranges


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_a_result_is_freed_before_the_next_call(cache: Any) -> None:
    """Without a collection of garbage: the next one gets its memory, which `measure` has evicted."""
    last: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def kernel(x: Any) -> Any:
        alive.append(sum(one() is not None for one in last))
        results = [x + 1, {"twice": (2 * x,)}]
        last[:] = [weakref.ref(results[0]), weakref.ref(results[1]["twice"][0])]
        return results

    gc.disable()
    try:
        result = roofbench.measure(kernel, _X, reference=lambda x: [x + 1, {"twice": (x + x,)}], cache=cache, **_FEW)
    finally:
        gc.enable()
    assert result.ok, result.failure
    assert len(alive) > 20 and not any(alive)


# Gradients.


def _noting_gradients() -> tuple[Callable[[Any], None], list[bool]]:
    """A step with its backward pass, and for each of its calls whether it met no gradient."""
    found: list[bool] = []

    def step(x: Any) -> None:
        found.append(x.grad is None)
        (x * x).sum().backward()

    return step, found


@pytest.mark.parametrize("between_roof_probes", [False, True])
def test_gradients_are_dropped_before_each_call(between_roof_probes: bool) -> None:
    x = torch.ones(10, requires_grad=True)
    work = roofbench.work.read(40) if between_roof_probes else None
    step, found = _noting_gradients()
    assert roofbench.measure(step, x, work=work, reference=lambda x: (x * x).sum().backward(), **_FEW).ok
    assert len(found) > 5 and all(found)


def test_changed_arguments_are_restored_before_each_call() -> None:
    """Before those between roof probes too, which no sample has."""
    x, found = np.ones(100), list[bool]()

    def reference(x: Any) -> None:
        np.multiply(x, 2, out=x)

    def double(x: Any) -> None:
        found.append(x[0] < 1.5)
        reference(x)

    work = roofbench.Work(bytes_updated=800)
    result = roofbench.measure(double, x, work=work, reference=reference, mutates=[0], **_FEW)
    assert result.ok, result.failure
    assert len(found) > 5 and all(found)


def test_gradients_may_be_left_alone() -> None:
    x = torch.ones(10, requires_grad=True)
    step, found = _noting_gradients()
    assert roofbench.measure(step, x, grads=False, **_FEW).ok
    assert len(found) > 5 and found[0] and not any(found[1:])
    wrong = roofbench.measure(step, x, grads=False, reference=lambda x: (3 * x).sum().backward(), **_FEW)
    assert wrong.failure == "the reference gives no array, number, changed argument or gradient to compare with"


# Roofs for the next process.


def _keep_roof(facts: dict[str, str], cache: Path, rate: float) -> None:
    """Writes the file of lib/results/kept_roofs.cc for this machine: copying, measured now."""
    names = ("roofbench_version", "roofbench_revision", "build_type", "device_kind", "device", "threads")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    conditions = [f"{name}={facts[name]}" for name in ("device_arch", "cpu_isa", "cpu_affinity", "cpu_caches")]
    key = "|".join([*(facts[name] for name in names), boot, *conditions])
    code = 0xCBF29CE484222325
    for byte in key.encode():
        code = (code ^ byte) * 0x100000001B3 % 2**64
    folder = cache / "roofbench" / "roofs"
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    reading = {"roof": "copy", "variant": "plain", "rate": rate, "best": True, "measured": time.time()}
    confirmed = {"slow": 1.0, "fast": 1e20}  # by whatever a probe finds
    (folder / f"{code:016x}.json").write_text(json.dumps({"key": key, "readings": [reading | confirmed]}))


def test_the_program_and_python_read_the_same_roofs(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    here = _core.Machine()
    facts = here.context()
    _keep_roof(facts, tmp_path, 2.5e10)
    here.reuse_roofs("any")
    assert float(here.context()["roof_copy"]) == 2.5e10
    built = re.search(r"\((.*?)\)", run("--version").stdout)  # perhaps not at the same commit
    assert built
    _keep_roof(facts | {"roofbench_revision": built[1]}, tmp_path, 2.5e10)
    out = tmp_path / "out.json"
    flags = ("--benchmark_filter=^copy/impl:stream/bytes:1048576/cache:warm", "--benchmark_min_time=1x", "--suite=full")
    done = run(*flags, f"--threads={facts['threads']}", f"--benchmark_out={out}", "--check=off")
    assert done.returncode == 0, done.stderr
    context = json.loads(out.read_text())["context"]
    assert context["roofs"].startswith("measured 0 min before and reused"), context["roofs"]
    assert float(context["roof_copy"]) == 2.5e10


def test_roofs_are_kept_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    here = _core.Machine()
    _keep_roof(here.context(), tmp_path, 2.5e10)
    (tmp_path / "roofbench").chmod(0o777)
    here.reuse_roofs("any")
    assert "roof_copy" not in here.context()


def test_nothing_is_left_behind() -> None:
    _measured()
    before = set(vars(roofbench))
    assert gc.isenabled()
    _measured()
    assert set(vars(roofbench)) == before


# State besides the arguments.


class _Layer:
    """Sums up what it has seen in an array, and counts in a number if it is to."""

    def __init__(self, counts: bool) -> None:
        self.seen = np.zeros(4, np.float32)
        self.calls = 0
        self._counts = counts

    def apply(self, x: Any) -> Any:
        self.seen += 1
        self.calls += int(self._counts)
        return x * 2


def _norm() -> tuple[Callable[[Any], Any], Any]:
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(4))
    return module, module[0].running_mean


def _method(counts: bool = False) -> tuple[Callable[[Any], Any], Any]:
    layer = _Layer(counts)
    return layer.apply, layer.seen


def _closure() -> tuple[Callable[[Any], Any], Any]:
    held = {"more": [np.zeros(3)]}

    def function(x: Any) -> Any:
        held["more"][0] += 1
        return x * 2

    return function, held["more"][0]


def _rebound() -> tuple[Callable[[Any], Any], Any]:
    state = np.zeros(3)
    kept = np.zeros(3)

    def function(x: Any) -> Any:
        nonlocal state
        state = state + 1
        return x * 2

    return function, kept


def _partial() -> tuple[Callable[[Any], Any], Any]:
    buffer = np.zeros(3)

    def function(buffer: Any, x: Any) -> Any:
        buffer += 1
        return x * 2

    return functools.partial(function, buffer), buffer


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (_norm, "0.running_mean, 0.running_var, 0.num_batches_tracked"),
        (_method, "seen"),
        (_closure, "held['more'][0]"),
        (_rebound, "state"),
        (_partial, "[0]"),
    ],
)
def test_changed_state_is_named_and_restored(make: Callable[[], tuple[Any, Any]], named: str) -> None:
    function, held = make()
    result = roofbench.measure(function, torch.randn(8, 4), **_FEW)
    assert result.ok
    expected = f"calls change {named}, besides arguments and results (restored)"
    assert [note for note in result.notes if "change" in note] == [expected]
    assert not held.any()


def test_state_with_a_number_that_says_what_is_in_it_stays() -> None:
    function, seen = _method(counts=True)
    result = roofbench.measure(function, _X, **_FEW)
    assert "calls change seen, besides arguments and results" in result.notes
    assert seen.any()


def test_large_state_is_named() -> None:
    state = np.zeros((65 << 20) // 8)

    def function(x: Any) -> Any:
        state[-1] += 1
        return x * 2

    assert "calls change state, besides arguments and results" in roofbench.measure(function, _X, **_FEW).notes


def _prepared() -> Callable[[Any], Any]:
    table = np.zeros(300, np.float32)

    def function(x: Any) -> Any:
        if not table[0]:
            table[:] = 2
        return x * table

    return function


def _into(out: Any) -> Callable[[Any], Any]:
    return lambda x: np.multiply(x, 2, out=out)


@pytest.mark.parametrize(
    "function", [_prepared(), _into(np.empty(300, np.float32)), _double, torch.nn.BatchNorm1d(4).eval()]
)
def test_calls_that_change_nothing_have_no_note(function: Callable[[Any], Any]) -> None:
    x = _X if not isinstance(function, torch.nn.Module) else torch.randn(8, 4)
    assert [note for note in roofbench.measure(function, x, **_FEW).notes if "change" in note] == []
