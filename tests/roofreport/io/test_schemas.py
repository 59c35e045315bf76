# SPDX-License-Identifier: Apache-2.0
"""The schemas of results and journals: the first violation is named, and a long file costs little."""

from __future__ import annotations

import time
from pathlib import Path

import builders
import pytest
from roofreport.errors import UnusableInputError
from roofreport.io.load import load
from roofreport.io.schemas import violation


def test_a_violation_names_its_place(tmp_path: Path) -> None:
    rows = [builders.row(f"a/n:{n}", 1.0) for n in range(300)]
    rows[200]["real_time"] = "high"
    with pytest.raises(UnusableInputError, match=r"benchmarks\[200\]\.real_time must be number: 'high'"):
        load(builders.write_json(tmp_path / "a.json", rows))


def test_too_many_properties_are_refused(tmp_path: Path) -> None:
    rows = [builders.row("a/n:1", 1.0) | {f"k{i}": "text" for i in range(5000)}]
    with pytest.raises(UnusableInputError, match="200 properties"):
        load(builders.write_json(tmp_path / "a.json", rows))


def test_two_thousand_rows_are_checked_in_a_moment() -> None:
    document = builders.document([builders.row(f"a/n:{n}", 1.0) for n in range(2000)])
    assert violation(document, "google_benchmark") is None
    start = time.process_time()
    assert violation(document, "google_benchmark") is None
    assert time.process_time() - start < 5
