# SPDX-License-Identifier: Apache-2.0
"""Two states of a program; the numbers are those of tests/timing/split_test.cc."""

from __future__ import annotations

import pytest
from roofreport.stats import verdict


def test_two_states_are_found_whatever_their_shares() -> None:
    found = verdict.find_split([202e-6, 282e-6, 284e-6, 285e-6, 287e-6, 283e-6])
    assert found is not None
    assert (len(found.fast), len(found.slow)) == (1, 5)
    assert found.text() == "1 near 202 µs, 5 near 284 µs"
    half = verdict.find_split([3, 1, 3.1, 1.1])
    assert half is not None
    assert len(half.fast) == 2


@pytest.mark.parametrize("values", [[100, 110, 121, 133, 146], [100, 101, 102, 104, 108], [1, 1, 1, 1], [1, 2, 2], []])
def test_scatter_is_not_a_split(values: list[float]) -> None:
    assert verdict.find_split(values) is None
