# SPDX-License-Identifier: Apache-2.0
"""Whether a function did its work: its results against those of a reference, and what it did to the process."""

from __future__ import annotations

import _thread
import array as buffers
import dataclasses
import gc
import math
import os
import struct
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofbench import _core
from roofbench._arrays import (
    STORAGE,
    Array,
    Copier,
    array_of,
    floats,
    grads_of,
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
}
_EPSILON = {"fp8": 2.0**-3, "bf16": 2.0**-7, "fp16": 2.0**-10, "fp32": 2.0**-23, "fp64": 2.0**-52}


class LazyError(TypeError):
    """A result that is not there yet."""


# Results.


def results_of(returned: Any) -> list[Array | Value]:
    """The arrays and numbers in what a function returned. Raises LazyError for anything that may compute when it is
    read, and TypeError for arrays that cannot be read.
    """
    found: list[Array | Value] = []
    ndarray: Any = getattr(sys.modules.get("numpy"), "ndarray", ())
    generic: Any = getattr(sys.modules.get("numpy"), "generic", ())

    def visit(value: Any, place: str, depth: int) -> None:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if value is None or isinstance(value, (str, type)):
            return
        if isinstance(value, (bool, int, float, complex)):
            found.append(_number(place, value))
        elif is_tensor(value):
            if kind not in (torch().Tensor, torch().nn.Parameter):
                raise LazyError(f"{place} is a {name}, a subclass of torch.Tensor that may compute when it is read")
            found.append(array_of(value, place))
        elif isinstance(value, generic):
            found.append(array_of(np.asarray(value), place))
        elif isinstance(value, ndarray):
            if kind is not ndarray:
                raise LazyError(f"{place} is a {name}, a subclass of numpy.ndarray that may compute when it is read")
            found.append(array_of(value, place))
        elif depth < 8 and isinstance(value, dict):
            for key, item in dict.items(value):
                visit(item, f"{place}[{key!r}]", depth + 1)
        elif depth < 8 and isinstance(value, (list, tuple)):
            for index, item in enumerate(tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value)):
                visit(item, f"{place} {index}" if depth == 0 else f"{place}[{index}]", depth + 1)
        elif dataclasses.is_dataclass(value) and depth < 8:
            for field in dataclasses.fields(value):
                visit(vars(value).get(field.name), f"{place}.{field.name}", depth + 1)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            found.append(array_of(memoryview(value), place))
        elif is_array(value) and kind.__module__.partition(".")[0] in ("jax", "jaxlib"):
            if not value.is_ready():
                raise LazyError(f"{place} is still being computed: call its block_until_ready() in the function")
            found.append(array_of(value, place))
        else:
            raise LazyError(f"{place} is a {name}, which may compute when it is read: return arrays or numbers")

    visit(returned, "result", 0)
    return found


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

    def given(self, kind: str) -> Any:
        """The same of a result, which may stay in single precision."""
        return self.values() if self.kind == "f" else self.exact(kind)

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
    stored = _stored(result)
    return Value(result.where, result.dtype, stored.shape, stored.dtype.char, stored.tobytes())


def _number(place: str, value: bool | int | float | complex) -> Value:
    if isinstance(value, complex):
        return Value(place, "complex128", (2,), "d", struct.pack("dd", value.real, value.imag))
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return Value(place, "int64", (), "q", struct.pack("q", value))
    return Value(place, "float64", (), "d", struct.pack("d", value))


# The reference.


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Actual or expected results of a call."""

    results: list[Value]
    mutated: list[Value]  # the arguments that it may change; of a reference that changes none: empty
    grads: list[Value]  # one for each leaf that has one
    is_alias: bool = False  # a result is memory of an argument

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


@dataclasses.dataclass
class Reference:
    """The expected results of a call for the current values of the arguments."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    mutates: Sequence[int]  # arguments whose new values are results
    leaves: Sequence[Any]  # tensors of the function whose gradients are results, where the reference gives them

    def compute(self, double: bool) -> Outcome:
        copier = Copier(double)
        arguments = [copier(argument) for argument in self.arguments]
        function = copier.function(self.function)
        inputs = walk(arguments, "the reference's argument")
        changing = [array for index in self.mutates for array in walk(arguments[index], f"argument {index}")]
        before = [value_of(array) for array in changing]
        returned = function(*arguments)
        found = results_of(returned)
        arrays = [result for result in found if isinstance(result, Array)]
        aliased = any(shares(result, other) for result in arrays for other in inputs)
        results = [value_of(result) for result in found]
        mutated = [value_of(array) for array in changing]
        mapped = {id(leaf): copier.copies.get(id(leaf)) for leaf in self.leaves}
        grads = grads_of(self.leaves, lambda leaf: mapped[id(leaf)])
        values = [value_of(array_of(grad, "gradient")) for _, grad in grads]
        return Outcome(results, mutated if mutated != before else [], values, aliased)


def shares(one: Array, other: Array) -> bool:
    (low, size), (other_low, other_size) = one.memory(), other.memory()
    return low < other_low + other_size and other_low < low + size


def tolerance(dtypes: Sequence[str], reduction: float, given: float | None) -> float:
    """Largest relative deviation: of the least precise of the element types, and of sums of that length."""
    if given is not None:
        return given
    names = ["fp64" if dtype in ("float64", "complex128") else DTYPES.get(dtype) for dtype in dtypes]
    known = [name for name in names if name]
    if not known:
        return 0.0
    coarsest = max(known, key=_EPSILON.__getitem__)
    if coarsest == "fp64":
        return (2 + 4 * math.sqrt(reduction)) * _EPSILON["fp64"]
    return _core.relative_tolerance(coarsest, reduction=reduction)


def difference(given: Outcome, expected: Outcome, native: Outcome, allowed: float) -> str:
    """Why what a call gave is wrong, or ""."""
    if not (expected.results or expected.mutated or expected.grads):
        return "the reference gives nothing to compare: no array, number, changed argument or gradient"
    # A reference may return what the function leaves in an argument.
    results = given.results or (given.mutated if expected.results and not expected.mutated else [])
    why = wrong(results, expected.results, allowed, native.results)
    if expected.mutated and not why:
        why = wrong(given.mutated, expected.mutated, allowed, native.mutated)
    if expected.grads and not why:
        why = wrong(given.grads, expected.grads, allowed, native.grads)
    return why


def wrong(results: Sequence[Value], expected: Sequence[Value], allowed: float, native: Sequence[Value]) -> str:
    """Why results are wrong, or "". `native` are those of the reference in the arguments' own precision: its rounding,
    three times, widens what is allowed, up to half of a value.
    """
    if len(results) != len(expected):
        return f"{len(results)} results where the reference gives {len(expected)}"
    for index, (result, reference) in enumerate(zip(results, expected, strict=True)):
        if result.shape != reference.shape:
            return f"wrong {result.place}: shape {list(result.shape)} where the reference gives {list(reference.shape)}"
        kind = "q" if result.is_whole and reference.is_whole else "d"
        actual, wanted = result.given(kind), reference.exact(kind)
        limit = 0.0 if kind == "q" else allowed
        why = _core.mismatch(actual, wanted, limit, what=result.place)
        if why and limit and index < len(native) and native[index].shape == reference.shape:
            limit = max(limit, min(3 * _stray(native[index], reference), 0.5))
            why = _core.mismatch(actual, wanted, limit, what=result.place)
        if why:
            return why
    return ""


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


def _attribute(module: str, *path: str) -> Callable[[], Any]:
    def get() -> Any:
        value: Any = sys.modules.get(module)
        for name in path:
            value = getattr(value, name, None)
        return value

    return get


_CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "process_time")
_OF_TORCH = (
    ("allclose",),
    ("isclose",),
    ("equal",),
    ("testing", "assert_close"),
    ("Tensor", "allclose"),
    ("Tensor", "data_ptr"),
    ("Tensor", "clone"),
    ("Tensor", "numpy"),
)
_WATCHED: Mapping[str, Callable[[], Any]] = {
    **{f"time.{name}": _attribute("time", name) for name in _CLOCKS},
    **{f"numpy.{name}": _attribute("numpy", name) for name in ("allclose", "isclose", "array_equal")},
    "numpy.testing.assert_allclose": _attribute("numpy", "testing", "assert_allclose"),
    **{f"torch.{'.'.join(path)}": _attribute("torch", *path) for path in _OF_TORCH},
    "roofbench": lambda: {
        (module, name): value
        for module, content in list(sys.modules.items())
        if module.partition(".")[0] == "roofbench"
        for name, value in list(vars(content).items())
        if isinstance(value, types.FunctionType)
    },
}
# State that belongs to the process: a function that leaves it changed also changes the samples of others.
_STATE: Mapping[str, Callable[[], Any]] = {
    "whether garbage is collected (gc)": gc.isenabled,
    "the thresholds of gc": gc.get_threshold,
    "the trace function (sys.settrace)": sys.gettrace,
    "the profile function (sys.setprofile)": sys.getprofile,
    "the switch interval (sys.setswitchinterval)": sys.getswitchinterval,
    "the processors of the process (os.sched_setaffinity)": lambda: os.sched_getaffinity(0),
    "the number of torch's threads": lambda: torch() and torch().get_num_threads(),
    "torch's default dtype": lambda: torch() and torch().get_default_dtype(),
    "torch's precision of float32 products": lambda: torch() and torch().get_float32_matmul_precision(),
    "torch's gradient mode": lambda: torch() and torch().is_grad_enabled(),
}


class Watch:
    """Finds what a function replaced or left changed in the process."""

    def __init__(self, reference: Callable[..., Any] | None) -> None:
        self._functions = {name: get() for name, get in _WATCHED.items()}
        self._state = {name: get() for name, get in _STATE.items()}
        self._reference = reference
        self._code = getattr(reference, "__code__", None)
        self._torch = torch() is not None
        self._threads = set(threading.enumerate())
        self._started = _thread._count()

    def clocks_before(self) -> str:
        """A clock that was replaced before the measurement began."""
        fake = [name for name in _CLOCKS if not isinstance(getattr(time, name), types.BuiltinFunctionType)]
        return f"time.{fake[0]} is replaced in this process" if fake else ""

    def changed(self) -> str:
        """The first of what is changed, or ""."""
        for name, before in self._functions.items():
            if before is not None and _differs(before, _WATCHED[name]()):
                return f"the function replaced {name}" if name != "roofbench" else "the function changed roofbench"
        if getattr(self._reference, "__code__", None) is not self._code:
            return "the function replaced the code of the reference"
        for name, before in self._state.items():
            if self._is_settled(name) and _STATE[name]() != before:
                return f"the function left {name} changed"
        return ""

    def _is_settled(self, name: str) -> bool:
        """Whether the state was there when the watch began: torch may have been loaded since."""
        return self._torch or "torch" not in name

    def working_thread(self, wait: float = 0.02) -> str:
        """A new thread of Python that works on although the call returned. Idle ones, as of a pool, are allowed."""
        new = [thread for thread in threading.enumerate() if thread not in self._threads and thread.native_id]
        if not new and _thread._count() <= self._started:
            return ""
        before = {thread: _cpu_seconds(thread.native_id) for thread in new}
        time.sleep(wait)
        for thread, seconds in before.items():
            ended = not thread.is_alive()
            if ended or _cpu_seconds(thread.native_id) - seconds > wait / 20:
                return f"the thread {thread.name} still worked when the call returned: its work was not timed"
        return ""


def _differs(before: Any, now: Any) -> bool:
    if isinstance(before, dict):
        return any(now.get(name) is not value for name, value in before.items())
    return now is not before


def _cpu_seconds(native_id: int | None) -> float:
    try:
        return int(Path(f"/proc/self/task/{native_id}/schedstat").read_text().split()[0]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


def recompilations() -> int:
    """How many frames torch.compile has compiled in this process."""
    utilities = sys.modules.get("torch._dynamo.utils")
    return int(utilities.counters["frames"]["total"]) if utilities is not None else 0
