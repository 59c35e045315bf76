# SPDX-License-Identifier: Apache-2.0
"""Figures are spelled by their unit, in one way for every report."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest
from reports import Report
from roofreport import units
from roofreport.history.records import machine_of
from roofreport.site import overview


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00123, "s", "1.23 ms"),
        (2500.0, "ms", "2.5 s"),
        (450.0, "ns", "450 ns"),
        (0.5, "fraction", "50 %"),
        (2.5e9, "B", "2.5 GB"),
        (1500.0, "B", "1.5 kB"),
        (4000.0, "count", "4000"),
        (128.6e6, "count", "129 M"),
        (1234.0, "tokens/s", "1234 tokens/s"),
        (1410.0, "MHz", "1410 MHz"),
        (12.5, "number", "12.5"),
        (1.0, "0 or 1", "1"),
    ],
)
def test_spelled(value: float, unit: str, text: str) -> None:
    assert units.spelled(value, unit) == text
    assert overview.shown(value, unit) == text


@pytest.mark.parametrize(
    ("metric", "text"), [("roof", "50 %"), ("tokens/s", "1234 tokens/s"), ("itl_ms", "9.76 ms"), ("peak_mem", "1.5 MB")]
)
def test_table_and_compare_spell_alike(metric: str, text: str, tmp_path: Path, report: Report) -> None:
    counters = {"roof": 0.5, "tokens/s": 1234.0, "itl_ms": 9.76, "peak_mem": 1.5e6}
    path = str(builders.write_json(tmp_path / "a.json", [builders.row("a/n:1", 1.0) | counters]))
    for arguments in (["table", path, f"--columns=case,{metric}"], ["compare", path, path, f"--metric={metric}"]):
        assert f" {text}" in report(*arguments).splitlines()[2]


def test_sizes_of_memory_are_in_powers_of_two() -> None:
    shown = [units.size(value) for value in (0, 1, 1023, 1024, 48 * 1024, 2**30, 1.5 * 2**30, 2**80)]
    assert shown == ["0 B", "1 B", "1023 B", "1 KiB", "48 KiB", "1 GiB", "1.5 GiB", "1.05e+06 EiB"]


@pytest.mark.parametrize(
    ("number", "noun", "plural", "text"), [(0, "case", "s", "0 cases are"), (1, "process", "es", "1 process is")]
)
def test_one_thing_has_no_plural(number: int, noun: str, plural: str, text: str) -> None:
    assert f"{units.counted(number, noun, plural)} {units.are(number)}" == text


def test_a_machine_of_one_thread_is_called_so() -> None:
    labels = [machine_of({"device": "CPU", "threads": threads}).label for threads in ("1", "2")]
    assert labels == ["CPU, 1 thread", "CPU, 2 threads"]
