# SPDX-License-Identifier: Apache-2.0
"""Arrays of numpy, torch and everything with a buffer or DLPack: found in nested objects, read, written and copied.

torch is used only where it is loaded already. Memory is reached by its address, so that a function under test cannot
put itself between an array and its reader by replacing methods.
"""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import functools
import importlib
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:

    class _OnUse:
        """numpy, imported when a value needs it: functions of other values are measured without it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("numpy"), name)

    np = _OnUse()

# Element types without a numpy type, and the integers that hold them.
STORAGE = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
_NOT_YET = (
    "GPUs are not measured from Python yet; move it to the CPU, as with .cpu(), or measure the kernel with the program"
    " (docs/your_kernel.md)"
)
_DLPACK_CPU = 1  # DLDeviceType
_DEEPEST = 20  # of nested containers; a cycle ends earlier
# Functions of these hold no operands.
_LIBRARIES = frozenset({"numpy", "torch", "jax", "roofbench", *sys.stdlib_module_names})


def torch() -> Any:
    """The module if the program has loaded it, or None."""
    return sys.modules.get("torch")


def is_tensor(value: Any) -> bool:
    return torch() is not None and isinstance(value, torch().Tensor)


def is_module(value: Any) -> bool:
    nn = sys.modules.get("torch.nn")
    return nn is not None and isinstance(value, nn.Module)


def is_array(value: Any) -> bool:
    if isinstance(value, type):
        return False
    if isinstance(value, (bytearray, memoryview)) or is_tensor(value):
        return True
    if isinstance(value, (bool, int, float, complex, str)):
        return False
    return any(hasattr(type(value), name) for name in ("__dlpack__", "__array_interface__", "__cuda_array_interface__"))


@dataclasses.dataclass(frozen=True, eq=False)
class Array:
    """Memory that a value holds."""

    where: str  # "argument 0", "argument 1['weight']"
    dtype: str  # numpy's name of the elements, or "bfloat16", …
    data: NDArray[Any]  # the memory itself; elements without a numpy type as integers
    owner: Any

    def memory(self) -> tuple[int, int]:
        """Address and length of the range that contains every element."""
        low, high = np.lib.array_utils.byte_bounds(self.data) if self.data.size else (0, 0)
        return low, high - low

    def read(self) -> NDArray[Any]:
        """A private, contiguous copy."""
        return np.array(self.data, order="C", copy=True)

    @property
    def is_writable(self) -> bool:
        """Whether each element has memory of its own that may be written."""
        overlaps = any(
            stride == 0 and length > 1 for stride, length in zip(self.data.strides, self.data.shape, strict=True)
        )
        return bool(self.data.flags.writeable) and not overlaps

    @property
    def is_floating(self) -> bool:
        return self.dtype in STORAGE or self.data.dtype.kind in "fc"


def _of_tensor(tensor: Any, where: str) -> Array:
    framework = torch()
    if tensor.device.type != "cpu":
        raise TypeError(f"{where} is on {tensor.device}: {_NOT_YET}")
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout is not framework.strided or tensor.is_quantized:
        raise TypeError(f"{where} is a {tensor.layout} tensor of {dtype}: only strided ones are supported")
    base = framework._C.TensorBase
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    storage = np.dtype(STORAGE.get(dtype, dtype))
    shape, steps = tuple(tensor.shape), [step * storage.itemsize for step in tensor.stride()]
    if 0 in shape:
        return Array(where, dtype, np.empty(shape, storage), tensor)
    length = sum((size - 1) * step for size, step in zip(shape, steps, strict=True)) + storage.itemsize
    memory = (ctypes.c_byte * length).from_address(base.data_ptr(tensor))
    flat = np.frombuffer(memory, np.uint8)
    view: NDArray[Any] = np.ndarray(shape, storage, flat, 0, tuple(steps))
    return Array(where, dtype, view, tensor)


def array_of(value: Any, where: str) -> Array:
    """Raises TypeError for arrays that are not on the CPU or not of numbers."""
    if is_tensor(value):
        return _of_tensor(value, where)
    device = getattr(value, "__dlpack_device__", lambda: (_DLPACK_CPU, 0))()[0]
    if device != _DLPACK_CPU or hasattr(value, "__cuda_array_interface__"):
        raise TypeError(f"{where} is on a GPU: {_NOT_YET}")
    try:
        if isinstance(value, (np.ndarray, bytearray, memoryview)) or not hasattr(value, "__dlpack__"):
            data = np.ndarray.view(np.asarray(value), np.ndarray)
        else:
            data = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{where} ({type(value).__name__}) gives no array of the CPU: {error}") from error
    name = data.dtype.name
    if name in STORAGE:  # of the package ml_dtypes
        data = data.view(STORAGE[name])
    elif data.dtype.kind not in "biufc":
        raise TypeError(f"{where} has elements of {data.dtype}, not numbers")
    return Array(where, name, data, value)


def parts(value: Any) -> list[tuple[str, Any]] | None:
    """The contents of a container, each with the text that follows the container's name; None for other values."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    if is_module(value):
        groups = (value.named_parameters(), value.named_buffers())
        return [(f".{name}", item) for group in groups for name, item in group]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


def _is_own(function: types.FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] not in _LIBRARIES - {"__main__"}


def captured(function: Any) -> Iterator[tuple[str, Any]]:
    """The references of a callable: its closure, defaults and globals, or the attributes of an object."""
    compiled = getattr(function, "_torchdynamo_orig_callable", None)
    if compiled is not None:
        yield "", compiled
    elif isinstance(function, functools.partial):
        yield from [("", function.func), ("", function.args), ("", function.keywords)]
    elif isinstance(function, types.MethodType):
        yield from [("", function.__self__), ("", function.__func__)]
    elif isinstance(function, types.FunctionType):
        if not _is_own(function):
            return
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if cell != types.CellType():
                yield f".{name}", cell.cell_contents
        yield from [("", function.__defaults__), ("", function.__kwdefaults__)]
        for name in code.co_names:
            if name in function.__globals__:
                yield f".{name}", function.__globals__[name]
    elif is_module(function):
        yield from parts(function) or ()
    elif hasattr(function, "__dict__") and not isinstance(function, (type, types.ModuleType)):
        yield from ((f".{name}", item) for name, item in vars(function).items())


def walk(value: Any, where: str, *, into_functions: bool = False) -> list[Array]:
    """The arrays in a value, each once."""
    return list(_arrays_in(value, where, into_functions, set(), 0))


def _arrays_in(value: Any, where: str, into_functions: bool, seen: set[int], depth: int) -> Iterator[Array]:
    if id(value) in seen or depth > _DEEPEST:
        return
    seen.add(id(value))
    if is_array(value):
        yield array_of(value, where)
        return
    inside: Iterable[tuple[str, Any]] = parts(value) or ()
    if not inside and into_functions and (callable(value) or depth == 0):
        inside = captured(value)
    for suffix, part in inside:
        yield from _arrays_in(part, where + suffix, into_functions, seen, depth + 1)


def same_bits(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Compares arrays of the same shape and type: a NaN is itself, and zeros of either sign differ."""
    if one.dtype.itemsize > 8:
        return one.tobytes() == other.tobytes()
    kind = f"u{one.dtype.itemsize}"
    return not (one.view(kind) != other.view(kind)).any()


# Values.


def floats(data: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The values as numpy's numbers: bf16 and fp8 in fp32."""
    if dtype == "bfloat16":
        return (data.astype(np.uint32) << 16).view(np.float32)
    if dtype in STORAGE:
        codes: Any = torch().arange(256, dtype=torch().uint8).view(getattr(torch(), dtype)).float()
        table: NDArray[Any] = np.array(codes.tolist(), np.float32)
        decoded: NDArray[Any] = table[data]
        return decoded
    return data


def storage(values: NDArray[Any], like: Array) -> NDArray[Any]:
    """The inverse of `floats`, cut off instead of rounded; not for fp8."""
    if like.dtype == "bfloat16":
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(like.data.dtype, copy=False)


def _factors(count: int, random: np.random.Generator) -> NDArray[Any]:
    """From 0.5 to 1; less where the array begins or ends, in every second place, and in others that take turns: so the
    values of a part say nothing about those of the rest.
    """
    # Over and over; as many factors as a row often has would scale all rows alike.
    factors = np.resize(random.uniform(0.76, 1, 4093).astype(np.float32), count)
    cut = int(count * random.uniform(0.3, 0.7))
    factors[:cut] *= 0.87
    if random.integers(2):
        factors = factors[::-1].copy()
    for period, length in ((2, 1), (random.integers(2, 8), 2 ** random.integers(1, 13))):
        lower = random.permutation(np.arange(period) < period // 2)
        factors *= np.resize(np.repeat(np.where(lower, np.float32(0.87), np.float32(1)), length), count)
    return factors


def are_in_order(values: NDArray[Any]) -> bool:
    """As offsets are."""
    flat = values.reshape(-1)
    return bool((flat[1:] >= flat[:-1]).all())


_MOST_SORTED = 1 << 20  # elements that are looked at; a sort of all of many takes seconds


def have_repeats(values: NDArray[Any]) -> bool:
    """Whether numbers, the first million of many, are not all different, as those of a permutation are."""
    ordered = np.sort(values.reshape(-1)[:_MOST_SORTED])
    return bool((ordered[1:] == ordered[:-1]).any())


def fresh_values(
    array: Array, original: NDArray[Any], random: np.random.Generator, gently: bool, replaces: bool
) -> NDArray[Any]:
    """Other values of the same kind: in another order, each floating-point number scaled by 0.5 to 1, and every 16th of
    whole numbers another of them if that `replaces` any; `gently`, all floating-point numbers scaled by the same
    factor, which keeps order, symmetry and zeros, as those beside others that are not finite, which stay.
    """
    flat = original.reshape(-1)
    by = int(random.integers(1, max(2, flat.size)))
    fp8 = array.dtype in STORAGE and array.dtype != "bfloat16"
    if array.is_floating and not fp8:
        values = floats(flat, array.dtype)
        finite = np.isfinite(values)
        if not finite.all():
            values = np.where(finite, values * values.dtype.type(random.uniform(0.5, 0.95)), values)
        elif gently:
            values = values * values.dtype.type(random.uniform(0.5, 0.95))
        else:
            values = np.roll(values, by)
            if values.size > 1 and values[0] == values[-1] and (values == values[0]).all():
                values = random.uniform(0.5, 1, values.size).astype(values.dtype) * (values[0] or 1)
            values *= _factors(values.size, random).astype(values.dtype, copy=False)
        flat = storage(values, array)
    elif not gently:
        flat = np.roll(flat, by)
        if replaces and not array.is_floating:
            flat[::16] = random.permutation(flat)[::16]
    return flat.reshape(original.shape)


def different(array: Array, values: NDArray[Any]) -> NDArray[Any]:
    """Other values in all places, of zeros as well."""
    if values.dtype.kind == "b":
        return ~values
    changed = np.empty_like(values)
    if array.dtype in STORAGE:
        np.bitwise_xor(values, values.dtype.type(0x40 << 8 * (values.dtype.itemsize - 1)), out=changed)  # the exponent
    else:
        np.add(values, values.dtype.type(1), out=changed)
    return changed


# Copies for the reference.


class Copier:
    """Private copies of values, in double precision or as they are. The same object is copied once."""

    def __init__(self, double: bool) -> None:
        self._double = double
        self.copies: dict[int, Any] = {}  # by the identity of the original, as copy.deepcopy keeps them
        self._kept: list[Any] = []  # keeps the identities valid
        self._seen: set[int] = set()  # containers

    def __call__(self, value: Any) -> Any:
        self._decide(value)
        return copy.deepcopy(value, self.copies)

    def function(self, function: Any) -> Any:
        """A function whose closure and globals have copies of the arrays and modules that it refers to."""
        if isinstance(function, functools.partial):
            return functools.partial(self.function(function.func), *self(function.args), **self(function.keywords))
        if isinstance(function, types.MethodType):
            return types.MethodType(function.__func__, self(function.__self__))
        if not isinstance(function, types.FunctionType) or not _is_own(function):
            return self(function)
        namespace = dict(function.__globals__)
        old_cells = function.__closure__ or ()
        cells = tuple(types.CellType() for _ in old_cells)
        made = types.FunctionType(function.__code__, namespace, function.__name__, None, cells)
        self._keep(function, made)  # before its parts, which may refer to it
        for name in function.__code__.co_names:
            if name in namespace:
                namespace[name] = self._held(namespace[name])
        for old, new in zip(old_cells, cells, strict=True):
            if old != types.CellType():
                new.cell_contents = self._held(old.cell_contents)
        made.__defaults__ = self(function.__defaults__)
        made.__kwdefaults__ = self(function.__kwdefaults__)
        return made

    def _held(self, value: Any) -> Any:
        """The references of a function: its own list of results, say, stays the same object."""
        return value if isinstance(value, (list, dict, set)) and not walk(value, "") else self(value)

    def _keep(self, original: Any, made: Any) -> None:
        self.copies[id(original)] = made
        self._kept.append(original)

    def _decide(self, value: Any) -> None:
        """Makes the copies of what containers and modules hold: of arrays and functions; other objects stay."""
        if id(value) in self.copies or id(value) in self._seen or value is None:
            return
        if is_array(value):
            self._keep(value, self._tensor(value) if is_tensor(value) else self._array(value))
        elif isinstance(value, types.FunctionType) and _is_own(value):
            self.function(value)
        elif (inside := parts(value)) is None:
            self._keep(value, value)
        else:
            self._seen.add(id(value))
            for _, part in inside:
                self._decide(part)

    def _array(self, value: Any) -> NDArray[Any]:
        array = array_of(value, "an argument of the reference")
        if self._double and array.is_floating:
            kind = np.complex128 if array.data.dtype.kind == "c" else np.float64
            return np.array(floats(array.data, array.dtype), kind)
        return np.array(np.asarray(value) if array.dtype in STORAGE else array.data)

    def _tensor(self, tensor: Any) -> Any:
        kind = tensor.dtype
        if self._double and (tensor.is_floating_point() or tensor.is_complex()):
            kind = torch().complex128 if tensor.is_complex() else torch().float64
        made = tensor.detach().to(kind, copy=True)
        if isinstance(tensor, torch().nn.Parameter):
            return torch().nn.Parameter(made, tensor.requires_grad)
        return made.requires_grad_(tensor.requires_grad)
