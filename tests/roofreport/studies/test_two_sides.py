# SPDX-License-Identifier: Apache-2.0
"""Few comparisons of the study of false verdicts, with a fixed seed."""

from __future__ import annotations

import pytest
from roofreport.studies import two_sides

_TURNS = two_sides.DESIGNS[3]


@pytest.mark.parametrize("kind", two_sides.KINDS)
def test_a_program_is_not_different_from_itself(kind: str) -> None:
    for design in two_sides.DESIGNS[:4]:
        assert two_sides.share(1, kind, design, 4).false == 0


def test_a_tenth_more_is_found_six_against_six() -> None:
    assert two_sides.share(1, "quiet, 1 %", _TURNS, 8).found == 1
