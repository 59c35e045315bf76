# SPDX-License-Identifier: Apache-2.0
"""A short run of fuzz_program.py for each change that lands, and a long one in each nightly run."""

from __future__ import annotations

from pathlib import Path

import fuzz_program
import pytest


@pytest.mark.slow
def test_nothing_breaks(program: Path) -> None:
    assert not fuzz_program.fuzz(program, lines=8, environments=4, seed=20261122)


@pytest.mark.nightly
def test_nothing_breaks_at_length(program: Path) -> None:
    assert not fuzz_program.fuzz(program, lines=300, environments=150, seed=1)
