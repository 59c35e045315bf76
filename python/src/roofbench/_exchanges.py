# SPDX-License-Identifier: Apache-2.0
"""Which elements of arrays change places before timed calls, among each other and with spare ones, and the values that
a call found after that (lib/timing/exchanges.h).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roofbench._arrays import Array

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    from roofbench._arrays import np

_SPARES = 4096  # elements with which some of an array change places
_MOST_LINES = 4096  # of an array whose lines have gaps between them, or lie in another order; few for each call
_MOST_TRIED = 64  # of them


Spares = dict[int, "NDArray[Any]"]  # by the number of their array


class Exchange(NamedTuple):
    """Elements of a part that changed places."""

    part: int  # its number
    one: int
    other: int
    length: int
    with_spare: bool = False


class Part(NamedTuple):
    """Elements of an array that lie next to each other: all of them, or a line of it."""

    array: int  # its number
    line: tuple[int | slice, ...] | None
    size: int

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """A view of them."""
        return values.reshape(-1) if self.line is None else values[self.line]


@dataclasses.dataclass(frozen=True)
class Exchanges:
    """Of no arrays, unless there are parts."""

    parts: Sequence[Part] = ()
    spares: Mapping[int, NDArray[Any]] = dataclasses.field(default_factory=dict)  # of each array: other values, or none

    def __bool__(self) -> bool:
        return bool(self.parts)

    def places(self, arrays: Sequence[Array]) -> tuple[list[tuple[int, int, int, int, int, int]], Spares]:
        """Address, bytes of an element and number of elements of each part, address and number of its spare ones, and
        the number of its array; and copies of those, which are exchanged in turn, and have to live as long."""
        spares = self._own_spares()
        of_spares = {array: (spare.ctypes.data, spare.size) for array, spare in spares.items()}
        found = []
        for part in self.parts:
            line = part.of(arrays[part.array].data)
            found.append((line.ctypes.data, line.itemsize, part.size, *of_spares[part.array], part.array))
        return found, spares

    def without_spares(self) -> Exchanges:
        return dataclasses.replace(self, spares={array: spare[:0] for array, spare in self.spares.items()})

    def _own_spares(self) -> Spares:
        return {array: spare.copy() for array, spare in self.spares.items()}

    def values(self, before: Sequence[NDArray[Any]], pairs: Sequence[Exchange]) -> list[NDArray[Any]]:
        """Those of all arrays after these exchanges."""
        changed = list(before)
        for index in {self.parts[number].array for number, *_ in pairs}:
            changed[index] = changed[index].copy()
        spares = self._own_spares()
        for number, one, other, length, with_spare in pairs:
            part = self.parts[number]
            flat = part.of(changed[part.array])
            others = spares[part.array] if with_spare else flat
            kept = flat[one : one + length].copy()
            flat[one : one + length] = others[other : other + length]
            others[other : other + length] = kept
        return changed

    def trial(self) -> list[Exchange]:
        """The halves of each part, or of some, and some spare elements."""
        some = [(i, self.parts[i]) for i in range(0, len(self.parts), 1 + len(self.parts) // _MOST_TRIED)]
        halves = [Exchange(i, 0, part.size // 2, part.size // 2) for i, part in some]
        singles = [
            Exchange(i, at, at, 1, with_spare=True)
            for i, part in some
            for at in range(0, min(part.size, self.spares[part.array].size), 16)
        ]
        return [*halves, *singles]


def of(
    arrays: Sequence[Array], fresh: Sequence[NDArray[Any]], free: Sequence[Array], replaced: Sequence[Array], seed: int
) -> Exchanges:
    """Of those arrays that are `free`; those that may be `replaced` have spare elements from their fresh values."""
    random = np.random.default_rng(seed)
    parts = [part for index, array in enumerate(arrays) if array in free for part in _parts(index, array, random)]
    spares = {}
    for index in {part.array for part in parts}:
        flat = fresh[index].reshape(-1)
        spares[index] = flat[random.integers(flat.size, size=_SPARES if arrays[index] in replaced else 0)]
    return Exchanges(parts, spares)


def _parts(index: int, array: Array, random: np.random.Generator) -> list[Part]:
    """The whole of an array without gaps, in the order of rows; otherwise some of its lines, if there are any."""
    data = array.data
    if data.flags.c_contiguous:
        return [Part(index, None, data.size)] if data.size > 1 else []
    along = next((i for i in range(data.ndim) if data.strides[i] == data.itemsize and data.shape[i] > 1), None)
    if along is None:
        return []
    others = [1 if i == along else size for i, size in enumerate(data.shape)]
    found = []
    for number in random.permutation(math.prod(others))[:_MOST_LINES]:
        place = [int(i) for i in np.unravel_index(number, others)]
        line = tuple(slice(None) if i == along else at for i, at in enumerate(place))
        found.append(Part(index, line, data.shape[along]))
    return found
