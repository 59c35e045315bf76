# SPDX-License-Identifier: Apache-2.0
"""What a function can reach besides its arguments, and whether its calls change that: parameters and buffers of a
module, arrays of a closure, of defaults and of the attributes of objects.
"""

from __future__ import annotations

import collections
import dataclasses
import sys
import types
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from roofbench._arrays import Array, array_of, captured, is_array, is_module, parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DEEPEST = 8  # of references from the function
_MOST_OBJECTS = 5000
_COPIED_BYTES = 64 << 20  # of all arrays together: larger ones are compared by a sum, and stay changed
_SUMMED_BYTES = 1 << 30
_NAMED = 3
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclasses.dataclass
class _Reached:
    """At one moment, by the way to it from the function."""

    arrays: dict[str, Array] = dataclasses.field(default_factory=dict)
    plain: dict[str, Any] = dataclasses.field(default_factory=dict)  # numbers, and lengths of containers


class State:
    """Finds changes between `mark` and `settle`, and takes back those that it can."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Array]) -> None:
        self._function = function
        self._arguments = [array.memory() for array in arguments]
        self._results: list[tuple[int, int]] = []
        self._marked: dict[str, int] | None = None
        before = self._reached()
        self._plain = before.plain
        self._originals: dict[str, NDArray[Any]] = {}
        for where, array in _smallest(before.arrays, _COPIED_BYTES):
            self._originals[where] = array.read()

    def returned(self, results: Sequence[Any]) -> None:
        """The results of the last call: memory that a function keeps for them is no state."""
        self._results = [one.memory() for one in results if isinstance(one, Array)]

    def mark(self) -> None:
        """After the first calls, which may prepare something once."""
        if self._marked is None:
            self._marked = _sums(self._reached())

    def settle(self) -> str:
        """A note about what has changed, or "". Takes it back, unless a number beside it changed too, which may say
        what is in it: how long a cache is filled, or that a table is made."""
        if self._marked is None:
            return ""
        now = self._reached()
        sums = _sums(now)
        changed = [where for where, before in self._marked.items() if sums.get(where, before) != before]
        if not changed:
            return ""
        restored = now.plain == self._plain and all(self._restore(now.arrays[where], where) for where in changed)
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        names = ", ".join(where.removeprefix(".") for where in changed[:_NAMED])
        return f"calls change {names}{more}, besides arguments and results{' (restored)' if restored else ''}"

    def _restore(self, array: Array, where: str) -> bool:
        original = self._originals.get(where)
        if original is None or original.shape != array.data.shape or original.dtype != array.data.dtype:
            return False
        if array.is_writable:
            array.data[...] = original
        return array.is_writable

    def _reached(self) -> _Reached:
        found = _Reached()
        taken = [*self._arguments, *self._results]
        for where, value, in_memory in _walk(self._function):
            if not in_memory:
                found.plain.setdefault(where, value)
                continue
            try:
                array = array_of(value, where)
            except TypeError:  # of a GPU, or not of numbers
                continue
            low, size = array.memory()
            if size and not any(low < other + length and other < low + size for other, length in taken):
                found.arrays.setdefault(where, array)
        return found


def _smallest(arrays: dict[str, Array], most_bytes: int) -> Iterator[tuple[str, Array]]:
    """As many as have so many bytes together."""
    left = most_bytes
    for where, array in sorted(arrays.items(), key=lambda one: one[1].data.nbytes):
        left -= array.data.nbytes
        if left < 0:
            return
        yield where, array


def _sums(reached: _Reached) -> dict[str, int]:
    """Sums that depend on every bit, of as many arrays as do not take long."""
    sums = {where: zlib.crc32(array.data.tobytes()) for where, array in _smallest(reached.arrays, _SUMMED_BYTES)}
    return {where: sums[where] for where in reached.arrays if where in sums}  # in the order of the way to them


def _walk(function: Any) -> Iterator[tuple[str, Any, bool]]:
    """Numbers and lengths of containers, and what is an array, nearest first."""
    queue: collections.deque[tuple[str, Any, int]] = collections.deque([("", function, 0)])
    seen: dict[int, Any] = {}  # with the objects, whose identity stays theirs
    numpy = sys.modules.get("numpy")
    plain = (*_PLAIN, *([numpy.generic] if numpy else []))
    while queue and len(seen) < _MOST_OBJECTS:
        where, value, depth = queue.popleft()
        is_plain = isinstance(value, plain)
        if is_plain or is_array(value):
            yield where, value, not is_plain
            continue
        if id(value) in seen or depth > _DEEPEST:
            continue
        seen[id(value)] = value
        try:
            inside = list(_inside(value))
        except RuntimeError:  # a thread changed it
            continue
        if isinstance(value, (dict, list, set, collections.deque)):
            yield f"len({where})", len(value), False
        queue.extend((where + suffix, item, depth + 1) for suffix, item in inside)


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (type, types.ModuleType)):
        return
    if isinstance(value, collections.deque):
        value = list(value)
    contents = None if is_module(value) else parts(value)
    yield from captured(value) if contents is None else contents
    if is_module(value):  # what its parts hold besides parameters and buffers
        for name, part in value.named_modules():
            yield from ((f".{name}.{key}", item) for key, item in vars(part).items() if not key.startswith("_"))
