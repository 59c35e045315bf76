# SPDX-License-Identifier: Apache-2.0
"""Which elements change places between timed calls."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from roofbench import _exchanges, _measure
from roofbench._arrays import Array, fresh_values, walk
from roofbench._exchanges import Exchange, Exchanges


def exchanges_of(*arrays: Any) -> tuple[list[Array], Exchanges]:
    found = list(walk(list(arrays), "argument"))
    random = np.random.default_rng(1)
    fresh = [fresh_values(array, array.read(), random, gently=False, replaces=True) for array in found]
    return found, _exchanges.of(found, fresh, found, found, seed=1)


def random_floats(*shape: int) -> NDArray[Any]:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def test_an_array_without_gaps_is_one_part() -> None:
    _, found = exchanges_of(random_floats(30, 40))
    assert found.parts == [_exchanges.Part(0, None, 1200)]
    assert found.spares[0].size == 4096


def test_many_lines_are_parts_of_which_some_are_tried() -> None:
    _, found = exchanges_of(random_floats(5000, 8)[:, :4])
    assert len(found.parts) == 4096
    assert len({exchange.part for exchange in found.trial()}) <= 64


def test_rows_with_gaps_are_parts() -> None:
    x = random_floats(30, 40)
    _, found = exchanges_of(x[:, :20], x[:, 20:])
    assert len(found.parts) == 60
    assert {part.size for part in found.parts} == {20}
    assert {part.array for part in found.parts} == {0, 1}


def test_an_array_in_the_order_of_columns_has_columns() -> None:
    x = random_floats(30, 40)
    arrays, found = exchanges_of(x.T)
    assert {part.size for part in found.parts} == {40}
    before = [array.read() for array in arrays]
    (now,) = found.values(before, [Exchange(3, 0, 20, 20)])
    (column,) = np.flatnonzero((now != before[0]).any(axis=0))
    assert np.array_equal(now[:20, column], before[0][20:, column])
    places, _ = found.places(arrays)
    assert places[3][0] == x[column].ctypes.data


def test_lines_with_gaps_between_elements_are_none() -> None:
    assert not exchanges_of(random_floats(30, 40)[:, ::2])[1]


@pytest.mark.parametrize(
    ("values", "repeats"),
    [([3, 1, 3, 2], True), ([3, 1, 0, 2], False), ([0, 2, 2, 5], False), ([1, 1, 1, 1], False)],
)
def test_whole_numbers_may_be_a_permutation_or_offsets(values: list[int], repeats: bool) -> None:
    assert _measure._may_be_replaced(np.array(values, np.int32)) == repeats


def test_keys_only_change_places() -> None:
    numbers = np.random.default_rng(2).integers(0, 9, 64)
    (array,) = walk(numbers, "argument")
    fresh = fresh_values(array, numbers, np.random.default_rng(3), gently=False, replaces=False)
    assert np.array_equal(np.sort(fresh), np.sort(numbers))
    assert not _exchanges.of([array], [fresh], [array], [], seed=1).spares[0].size


def test_every_16th_of_whole_numbers_is_another_of_them() -> None:
    numbers = np.random.default_rng(2).integers(0, 1000, 4096)
    (array,) = walk(numbers, "argument")
    fresh = fresh_values(array, numbers, np.random.default_rng(3), gently=False, replaces=True)
    assert not np.array_equal(np.sort(fresh), np.sort(numbers))
    assert set(fresh) <= set(numbers)


def test_values_are_what_the_memory_holds_after_the_exchanges() -> None:
    both = random_floats(6, 64)
    arrays, found = exchanges_of(both[:, :32], both[:, 32:])
    before = [array.read() for array in arrays]
    places, spares = found.places(arrays)
    pairs = [Exchange(0, 0, 5, 4), Exchange(7, 3, 9, 1, with_spare=True), Exchange(7, 20, 2, 8)]
    spares_before = found.spares[1].copy()
    for part, one, other, length, with_spare in pairs:
        address, item_bytes, _, spare, _, _ = places[part]
        here, there = address + one * item_bytes, (spare if with_spare else address) + other * item_bytes
        kept = ctypes.string_at(here, length * item_bytes)
        ctypes.memmove(here, there, len(kept))
        ctypes.memmove(there, kept, len(kept))
    for now, array in zip(found.values(before, pairs), arrays, strict=True):
        assert np.array_equal(now, array.data)
    assert spares[1][9] != spares_before[9], "spare elements are exchanged in turn"
    assert np.array_equal(found.spares[1], spares_before), "and those for other samples stay"


def test_spares_may_be_those_of_floats_alone() -> None:
    numbers = np.random.default_rng(2).integers(0, 9, 64)
    arrays, _ = exchanges_of(random_floats(64), numbers)
    kept = _exchanges.of(arrays, [array.read() for array in arrays], arrays, arrays[:1], seed=1)
    assert [kept.spares[index].size for index in (0, 1)] == [4096, 0]


def test_floats_change_places_where_the_keys_beside_them_cannot() -> None:
    keys = np.random.default_rng(2).permutation(64)
    refused = keys[32]

    def gather(x: Any, keys: Any) -> Any:
        if keys[0] == refused:  # once the halves have changed places
            raise ValueError("no such keys")
        return x[keys]

    subject = _measure.Subject(gather, (random_floats(64), keys), _measure.Options(reference=gather, seed=1))
    subject.expect()
    assert {part.array for part in subject._exchanges.parts} == {0}


def test_a_note_names_what_cannot_be_written() -> None:
    x = random_floats(64)
    x.flags.writeable = False
    subject = _measure.Subject(np.sum, (x,), _measure.Options(reference=np.sum))
    assert "every call finds the same values in argument 0 (cannot be written)" in subject.notes


def test_a_note_names_what_is_never_changed() -> None:
    mask, offsets, numbers = np.arange(64) % 3 == 0, np.arange(64), list(range(64))
    arguments = (random_floats(64), mask, offsets, numbers, (3, 4))
    subject = _measure.Subject(np.sum, arguments, _measure.Options(reference=np.sum))
    assert "every call finds the same values in argument 1 (bools), argument 2 (in order), argument 3 (a list)" in (
        subject.notes
    )
