# SPDX-License-Identifier: Apache-2.0
"""Whether a function did its work: its results against those of a reference, and what it did to the process."""

from __future__ import annotations

import _thread
import array as buffers
import dataclasses
import functools
import gc
import math
import os
import struct
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofbench import _core, _render
from roofbench._arrays import (
    STORAGE,
    Array,
    Copier,
    array_of,
    floats,
    is_array,
    is_tensor,
    same_bits,
    torch,
    walk,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    from roofbench._arrays import np

# numpy's names of element types and the program's.
DTYPES = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "complex64": "fp32",
    "float64": "fp64",
    "complex128": "fp64",
}


_DEEPEST = 8  # of nested results
_MOST_UNSEEN = 0.5  # of the numbers of a result, or of those that it is made of
_FEW_NUMBERS = 16  # that may be sums of all
_MANY_NUMBERS = 1 << 20
_MANY_TERMS = 1 << 12  # of each of more sums


class LazyError(TypeError):
    """A result that is not there yet."""


# Results.


def results_of(returned: Any) -> list[Array | Value]:
    """The arrays and numbers in what a function returned. Raises LazyError for anything that may compute when it is
    read, and TypeError for arrays that cannot be read.
    """
    return list(_results_in(returned, "result", 0))


def _results_in(value: Any, place: str, depth: int) -> Iterator[Array | Value]:
    # Not a function inside the other one: a cycle of references would keep the results, and their memory, until garbage
    # is collected, and every call would take new memory.
    numpy = sys.modules.get("numpy")
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    parts: Iterable[tuple[str, Any]] = ()
    if value is None or isinstance(value, (str, type)):
        return
    if kind in (bool, int, float, complex):
        yield _number(place, value)
    elif is_tensor(value):
        if kind not in (torch().Tensor, torch().nn.Parameter):
            raise LazyError(f"{place} is a {name}, a subclass of torch.Tensor that may compute when it is read")
        yield array_of(value, place)
    elif numpy and isinstance(value, numpy.generic) and kind in numpy.sctypeDict.values():
        yield array_of(np.asarray(value), place)
    elif numpy and isinstance(value, numpy.ndarray):
        if kind is not numpy.ndarray:
            raise LazyError(f"{place} is a {name}, a subclass of numpy.ndarray that may compute when it is read")
        yield array_of(value, place)
    elif isinstance(value, dict) and depth < _DEEPEST:
        parts = ((f"[{key!r}]", item) for key, item in dict.items(value))
    elif isinstance(value, (list, tuple)) and depth < _DEEPEST:
        items = tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value)
        parts = ((f"[{index}]" if depth else f" {index}", item) for index, item in enumerate(items))
    elif dataclasses.is_dataclass(value) and _has_plain_fields(kind) and depth < _DEEPEST:
        parts = ((f".{field.name}", vars(value).get(field.name)) for field in dataclasses.fields(value))
    elif isinstance(value, (bytes, bytearray, memoryview)):
        yield array_of(memoryview(value), place)
    elif is_array(value) and _is_of_jax(value):
        if not value.is_ready():
            raise LazyError(f"{place} is still being computed: call its block_until_ready() in the function")
        yield array_of(value, place)
    else:
        raise LazyError(f"{place} is a {name}, which may compute when it is read: return arrays or numbers")
    for suffix, part in parts:
        yield from _results_in(part, place + suffix, depth + 1)


def _is_of_jax(value: Any) -> bool:
    return isinstance(value, getattr(sys.modules.get("jax"), "Array", ()))


def _has_plain_fields(kind: type) -> bool:
    """Whether the fields of its objects are read without code of its own."""
    names = (type.__dict__["__dict__"].__get__(base).get("__dict__") for base in type.mro(kind))
    return all(name is None or isinstance(name, types.GetSetDescriptorType) for name in names)


def _stored(array: Array) -> NDArray[Any]:
    """Its memory, contiguous; a complex number is two."""
    data = np.ascontiguousarray(array.data)  # of at least one dimension
    return data.view(data.real.dtype) if data.dtype.kind == "c" else data.reshape(array.data.shape)


@dataclasses.dataclass(frozen=True)
class Value:
    """An array at a moment, in memory that cannot be written."""

    place: str
    dtype: str
    shape: tuple[int, ...]
    kind: str  # of the elements in `content`: numpy's letter
    content: bytes

    def stored(self) -> NDArray[Any]:
        return np.frombuffer(self.content, self.kind).reshape(self.shape)

    def values(self) -> NDArray[Any]:
        """In single or double precision, or as 64-bit integers."""
        values = floats(self.stored(), self.dtype)
        if self.is_whole:
            return values.astype(np.int64, copy=False)
        return values if values.dtype.char in "fd" else values.astype(np.float64)

    @property
    def is_whole(self) -> bool:
        return self.kind not in "efdg" and self.dtype not in STORAGE

    def exact(self, kind: str) -> Any:
        """A buffer of 64-bit integers or in double precision, by `kind` "q" or "d"."""
        if sys.modules.get("numpy") is None:  # a process of numbers may lack it
            return buffers.array(kind, buffers.array(self.kind, self.content))
        return self.values().astype(kind, copy=False)

    def given(self) -> Any:
        """In double precision; single precision stays."""
        return self.values() if self.kind == "f" else self.exact("d")

    def is_finite(self, of: Callable[[Iterable[bool]], bool] = all) -> bool:
        """Whether all elements are, or with `any` one of them."""
        if self.is_whole:
            return True
        if sys.modules.get("numpy") is None:
            return of(map(math.isfinite, self.exact("d")))
        finite = np.isfinite(self.values())
        return bool(finite.all() if of is all else finite.any())

    def is_still_in(self, result: Array | Value) -> bool:
        return isinstance(result, Value) or same_bits(_stored(result), self.stored())


def value_of(result: Array | Value) -> Value:
    if isinstance(result, Value):
        return result
    if not _core.is_readable(*result.memory()):
        raise LazyError(f"{result.where} is memory that cannot be read: it may be computed when it is")
    stored = _stored(result)
    return Value(result.where, result.dtype, stored.shape, stored.dtype.char, stored.tobytes())


def served(results: Iterable[Array | Value]) -> str:
    """Names one whose memory is filled when it is read, or "". Reads the list of open files: not for timed calls."""
    for result in results:
        if isinstance(result, Array) and _core.is_served(*result.memory()):
            return f"{result.where} is memory that is filled when it is read (userfaultfd)"
    return ""


def _number(place: str, value: bool | int | float | complex) -> Value:
    if isinstance(value, complex):
        return Value(place, "complex128", (2,), "d", struct.pack("dd", value.real, value.imag))
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return Value(place, "int64", (), "q", struct.pack("q", value))
    return Value(place, "float64", (), "d", struct.pack("d", value))


# The reference.


@dataclasses.dataclass(frozen=True)
class CallResults:
    """Actual or expected results of a call."""

    results: list[Value]
    mutated: list[Value]  # the arguments that it may change; of a reference that changes none: empty
    grads: list[Value]  # one for each leaf that has one
    is_alias: bool = False  # a result is memory of an argument
    overlapping: str = ""  # a result whose elements share memory

    def is_finite(self) -> list[bool]:
        return [value.is_finite() for value in self.results]

    def says_something(self) -> bool:
        """Whether there is a number in it, or an empty array, whose shape can be wrong."""
        values = (*self.results, *self.mutated, *self.grads)
        return any(not value.content or value.is_finite(any) for value in values)

    def is_still_in(self, held: Sequence[Sequence[Array | Value]]) -> bool:
        """Whether results, changed arguments and gradients are as they were."""
        pairs = zip((self.results, self.mutated, self.grads), held, strict=True)
        return all(
            len(values) == len(arrays) and all(map(Value.is_still_in, values, arrays)) for values, arrays in pairs
        )


def computed(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    mutates: Sequence[int],
    leaves: Sequence[Any],
    double: bool,
) -> CallResults:
    """Calls a reference with copies of these arguments. The new values of those that it `mutates` are results, and so
    are the gradients of the function's `leaves`, where it gives them."""
    copier = Copier(double)
    copied = [copier(argument) for argument in arguments]
    reference = copier.function(function)
    inputs = walk(copied, "the reference's argument")
    changing = [array for index in mutates for array in walk(copied[index], f"argument {index}")]
    before = [value_of(array) for array in changing]
    found = results_of(reference(*copied))
    aliased = any(shares(one, other) for one in found if isinstance(one, Array) for other in inputs)
    results, mutated = ([value_of(one) for one in group] for group in (found, changing))
    grads = [getattr(copier.copies.get(id(leaf)), "grad", None) for leaf in leaves]
    gradients = [value_of(array_of(grad, "gradient")) for grad in grads if grad is not None]
    return CallResults(results, mutated if mutated != before else [], gradients, aliased, overlapping(found))


def overlapping(results: Sequence[Array | Value]) -> str:
    """The first one whose elements share memory, as those of windows or of a broadcast do; or ""."""
    found = (one for one in results if isinstance(one, Array) and one.memory()[1] < one.data.nbytes)
    return next((one.where for one in found), "")


def shares(one: Array, other: Array) -> bool:
    (low, size), (other_low, other_size) = one.memory(), other.memory()
    return low < other_low + other_size and other_low < low + size


Tolerances = float | Sequence[float | None] | Mapping[int, float | None] | None  # for each output, or by its number


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """How far outputs may be from the reference: floating-point ones by relative deviation, whole numbers by quanta."""

    default: float  # of floating-point outputs
    rounding: float  # of the values that a quantizing function rounds to whole numbers
    reduction: float
    given: Tolerances = None

    def of(self, number: int) -> float | None:
        """What is given for this output; None: the default."""
        if isinstance(self.given, Mapping):
            return self.given.get(number)
        if isinstance(self.given, Sequence):
            return self.given[number] if number < len(self.given) else None
        return self.given

    def relative(self, number: int) -> float:
        """Of an output of floating-point numbers."""
        given = self.of(number)
        return self.default if given is None else given

    def misfit(self, outputs: int) -> str:
        """Why it does not fit so many outputs, or ""."""
        given = self.given if isinstance(self.given, (Mapping, Sequence)) else ()
        numbers = given if isinstance(given, Mapping) else range(len(given))
        if all(number < outputs for number in numbers):
            return ""
        there = _render.counted(outputs, "output")
        return f"tolerance={self.given}: the reference gives {there}, of which the first is number 0"


def check_tolerances(given: Any) -> None:
    """Raises TypeError or ValueError."""
    values = given.values() if isinstance(given, Mapping) else given if isinstance(given, (list, tuple)) else [given]
    numbers = list(given) if isinstance(given, Mapping) else []
    if not all(isinstance(value, (int, float)) or value is None for value in values):
        raise TypeError(f"tolerance={given!r}: expected a number, or one for each output: [1e-3, None] or {{1: 2}}")
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise TypeError(f"tolerance={given!r}: expected numbers of outputs, of which the first is 0")
    if any(value is not None and not value >= 0 for value in values):
        raise ValueError(f"tolerance={given!r}: negative")


def tolerance(dtypes: Sequence[str], reduction: float, given: Tolerances) -> Tolerance:
    """Follows from the least precise of the element types, and from sums of that length."""
    known = {DTYPES[dtype] for dtype in dtypes if dtype in DTYPES}
    each = [_core.relative_tolerance(dtype, reduction=reduction) for dtype in known]
    rounding = _core.relative_tolerance("fp64" if known == {"fp64"} else "fp32", reduction=reduction)
    return Tolerance(max(each, default=0.0), rounding, reduction, given)


def difference(given: CallResults, expected: CallResults, native: CallResults, allowed: Tolerance) -> str:
    """Why what a call gave is wrong, or ""."""
    outputs = len(expected.results) + len(expected.mutated) + len(expected.grads)
    if not outputs:
        return "the reference gives no array, number, changed argument or gradient to compare with"
    if why := allowed.misfit(outputs):
        return why
    if given.overlapping and not native.overlapping:
        return f"elements of {given.overlapping} share memory, where the reference's have their own"
    # A reference may return what the function leaves in an argument.
    results = given.results or (given.mutated if expected.results and not expected.mutated else [])
    why = wrong(results, expected.results, allowed, native.results)
    if expected.mutated and not why:
        why = wrong(given.mutated, expected.mutated, allowed, native.mutated, len(expected.results))
    if expected.grads and not why:
        first = len(expected.results) + len(expected.mutated)
        why = wrong(given.grads, expected.grads, allowed, native.grads, first)
    return why


def wrong(
    results: Sequence[Value],
    expected: Sequence[Value],
    allowed: Tolerance,
    native: Sequence[Value],
    first: int = 0,
) -> str:
    """Why results are wrong, or "". `native` are those of the reference in the arguments' own precision: its rounding
    widens what is allowed. `first` is the number of the first one among all outputs.
    """
    if len(results) != len(expected):
        return f"{_render.counted(len(results), 'result')} where the reference gives {len(expected)}"
    for index, (result, reference) in enumerate(zip(results, expected, strict=True)):
        if result.shape != reference.shape:
            return f"wrong {result.place}: shape {list(result.shape)} where the reference gives {list(reference.shape)}"
        rounded = native[index] if index < len(native) and native[index].shape == reference.shape else None
        given = allowed.of(first + index)
        if result.is_whole and reference.is_whole:
            why = _off_by_more(result, reference, given or 0.0)
        elif result.is_whole and sys.modules.get("numpy") is not None:
            why = _rounded_elsewhere(result, reference, rounded, allowed, given)
        else:
            why = _deviating(result, reference, rounded, allowed, given)
        if why:
            return why
    return ""


def unseen(results: Sequence[Value], allowed: Tolerance) -> list[str]:
    """Notes of results most of whose numbers are so small that the tolerance, which is of all, says nothing of them."""
    if sys.modules.get("numpy") is None:
        return []
    notes = []
    for number, value in enumerate(results):
        if value.is_whole or not (limit := allowed.relative(number)):
            continue
        share = _core.unseen_share(value.exact("d"), limit)
        if share > _MOST_UNSEEN:
            small = f"{100 * share:.0f} % of {value.place} is so small beside the rest that zeros would pass"
            notes.append(f"{small}: check it by parts")
    return notes


def passing_parts(results: Sequence[Value], allowed: Tolerance, largest: Array) -> list[str]:
    """A note of results that are sums of so many numbers that the tolerance, which grows with them, has room for a sum
    of some: a mean of n numbers, their standard deviation d, differs from that of a part f by d·√((1 - f) / (f·n)).
    """
    most = max((math.prod(value.shape) for value in results), default=1)
    terms = largest.data.size / most if most > _FEW_NUMBERS else largest.data.size
    if any(value.is_whole for value in results) or largest.data.size < _MANY_NUMBERS or terms < _MANY_TERMS:
        return []
    numbers = value_of(largest).exact("d")
    mean, deviation = abs(float(numbers.mean())), float(numbers.std())
    for number in range(len(results)):
        limit = 2 * mean * allowed.relative(number)  # of the result and its root mean square
        part = deviation**2 / (deviation**2 + terms * limit**2) if deviation and limit else 1.0
        if part < _MOST_UNSEEN:
            return [
                f"{results[number].place}: that of one in {1 / part:.0f} numbers would pass; reduction= allows less"
            ]
    return []


def _deviating(result: Value, reference: Value, rounded: Value | None, allowed: Tolerance, given: float | None) -> str:
    """Describes floating-point numbers that are too far from the reference."""
    limit = allowed.default if given is None else given
    actual, wanted = result.given(), reference.exact("d")
    why = _core.mismatch(actual, wanted, limit, what=result.place)
    if why and limit and rounded is not None:
        limit = _core.with_room_for_rounding(limit, _stray(rounded, reference))
        why = _core.mismatch(actual, wanted, limit, what=result.place)
    if why and rounded is not None and given is None and result.dtype in DTYPES:
        own = _core.relative_tolerance(DTYPES[result.dtype], reduction=allowed.reduction)
        if own > limit:
            why += (
                f"; it is {result.dtype} where the reference gives {rounded.dtype}: if it may be, pass"
                f" tolerance={own:.2g}"
            )
    return why


def _off_by_more(result: Value, reference: Value, quanta: float) -> str:
    """Describes how whole numbers differ by more than so many; empty if none does."""
    actual, wanted = result.exact("q").tobytes(), reference.exact("q").tobytes()
    if actual == wanted:
        return ""
    pairs = list(zip(memoryview(actual).cast("q"), memoryview(wanted).cast("q"), strict=True))
    off = [index for index, (one, other) in enumerate(pairs) if abs(one - other) > quanta]
    if not off:
        return ""
    one, other = pairs[off[0]]
    most = max(abs(one - other) for one, other in pairs)
    hint = (
        "; if it is a value rounded, let the reference return the value before rounding, or allow quanta by tolerance="
        if not quanta and most == 1
        else f" (allowed: {quanta:g} quanta)" * bool(quanta)
    )
    return (
        f"wrong {result.place}: off in {len(off)} of {len(pairs)} elements, the first (element {off[0]}) is {one}"
        f" where the reference has {other}{hint}"
    )


def _rounded_elsewhere(
    result: Value, reference: Value, rounded: Value | None, allowed: Tolerance, given: float | None
) -> str:
    """Describes whole numbers that are not the values of the reference, rounded: a value within its rounding error of a
    tie may go either way."""
    actual, wanted = result.values().reshape(-1), reference.exact("d").reshape(-1)
    nearest = np.rint(wanted)
    error = allowed.rounding * np.abs(wanted)
    most = np.maximum(1, error)  # beyond the precision of large values, there are no quanta
    if rounded is not None:
        error = error + 3 * np.abs(rounded.exact("d").reshape(-1) - wanted)
    with np.errstate(invalid="ignore"):
        fits = (np.abs(actual - wanted) <= 0.5 + error) & (np.abs(actual - nearest) <= most)
        if given is not None:
            fits |= np.abs(actual - nearest) <= given
    off = np.flatnonzero(~fits)
    if not off.size:
        return ""
    first = off[0]
    return (
        f"wrong {result.place}: off in {off.size} of {fits.size} elements, the first (element {first}) is"
        f" {actual[first]} where the reference has {wanted[first]:.9g} before rounding"
    )


def _stray(native: Value, reference: Value) -> float:
    if native.kind == reference.kind and native.content == reference.content:
        return 0.0
    rounded, exact = native.exact("d"), reference.exact("d")
    finite = np.isfinite(exact) & np.isfinite(rounded)
    if not finite.any():
        return 0.0
    unit = np.abs(exact[finite]) + math.sqrt(float(np.mean(exact[finite] ** 2)))
    return float(np.max(np.abs(rounded[finite] - exact[finite]) / np.maximum(unit, 1e-300)))


# The process.


_CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "process_time")
_WATCHED = (
    *(f"time.{name}" for name in _CLOCKS),
    *("numpy.allclose", "numpy.isclose", "numpy.array_equal", "numpy.testing.assert_allclose"),
    *("torch.allclose", "torch.isclose", "torch.equal", "torch.testing.assert_close"),
    "numpy.random.default_rng",  # which gives the checks their values
    *(f"torch.Tensor.{name}" for name in ("allclose", "data_ptr", "clone", "numpy")),
)


def _named(path: str) -> Any:
    """The object of a module under this path; None if the module is not loaded."""
    module, *names = path.split(".")
    return functools.reduce(lambda value, name: getattr(value, name, None), names, sys.modules.get(module))


def _functions() -> dict[str, Any]:
    """Objects that a function may not replace, by name: clocks, comparisons, and all functions of roofbench."""
    found = {path: _named(path) for path in _WATCHED}
    for module, content in list(sys.modules.items()):
        if module.partition(".")[0] == "roofbench":
            own = list(vars(content).items())
            found |= {f"{module}.{name}": one for name, one in own if isinstance(one, types.FunctionType)}
    return found


# State that belongs to the process: a function that leaves it changed also changes the samples of others.
_STATE: Mapping[str, Callable[[], Any]] = {
    "whether garbage is collected (gc)": gc.isenabled,
    "the thresholds of gc": gc.get_threshold,
    "the trace function (sys.settrace)": sys.gettrace,
    "the profile function (sys.setprofile)": sys.getprofile,
    "the switch interval (sys.setswitchinterval)": sys.getswitchinterval,
    "the processors of the process (os.sched_setaffinity)": lambda: os.sched_getaffinity(0),
    # Where it was loaded when the watch began.
    "the number of torch's threads": lambda: torch().get_num_threads(),
    "torch's default dtype": lambda: torch().get_default_dtype(),
    "torch's precision of float32 products": lambda: torch().get_float32_matmul_precision(),
    "torch's gradient mode": lambda: torch().is_grad_enabled(),
}


_MUCH_LONGER = 1.5  # than a call is what its thread worked, and beyond that:
_WAKE_SECONDS = 1e-4  # to start, wake and sleep


class Watch:
    """Finds what a function replaced or left changed in the process."""

    def __init__(self, reference: Callable[..., Any] | None) -> None:
        self._functions = _functions()
        self._state = {name: get() for name, get in _STATE.items() if torch() or "torch" not in name}
        self._reference = reference
        self._code = getattr(reference, "__code__", None)
        self._threads = set(threading.enumerate())
        self._started = _thread._count()
        self._spent: dict[threading.Thread, float] = {}

    def clocks_before(self) -> str:
        """A clock that was replaced before the measurement began."""
        fake = [name for name in _CLOCKS if not isinstance(getattr(time, name), types.BuiltinFunctionType)]
        return f"time.{fake[0]} is replaced in this process" if fake else ""

    def changed(self) -> str:
        """The first of what is changed, or ""."""
        now = _functions()
        for name, before in self._functions.items():
            if before is not None and now.get(name) is not before:
                return f"the function replaced {name}"
        if getattr(self._reference, "__code__", None) is not self._code:
            return "the function replaced the code of the reference"
        for name, before in self._state.items():
            if _STATE[name]() != before:
                return f"the function left {name} changed"
        return ""

    def _new_threads(self) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread not in self._threads and thread.native_id]

    def before_call(self) -> None:
        """Remembers the processor time of threads that earlier calls have started."""
        self._spent = {thread: _cpu_seconds(thread.native_id) for thread in self._new_threads()}

    def working_thread(self, call_seconds: float, wait: float = 0.02) -> str:
        """A new thread of Python that worked on although the call returned, or used more processor time than the call
        took. Idle ones, as of a pool, are allowed."""
        new = self._new_threads()
        if not new and _thread._count() <= self._started:
            return ""
        before = {thread: _cpu_seconds(thread.native_id) for thread in new}
        time.sleep(wait)
        most = _MUCH_LONGER * call_seconds + _WAKE_SECONDS
        for thread, seconds in before.items():
            ended = not thread.is_alive()
            now = _cpu_seconds(thread.native_id)
            if ended or now - seconds > wait / 20 or now - self._spent.get(thread, 0.0) > most:
                return f"the thread {thread.name} still worked when the call returned: its work was not timed"
        return ""


def _cpu_seconds(native_id: int | None) -> float:
    try:
        return int(Path(f"/proc/self/task/{native_id}/schedstat").read_text().split()[0]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


def recompilations() -> int:
    """How many frames torch.compile has compiled in this process."""
    utilities = sys.modules.get("torch._dynamo.utils")
    return int(utilities.counters["frames"]["total"]) if utilities is not None else 0
