# SPDX-License-Identifier: Apache-2.0
"""Medians over processes, by the speed that memory had."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest
from roofreport.io.load import load
from roofreport.io.result import Case, State
from roofreport.render import result_tables

EAGER = "norm/impl:eager/d:1"
NATIVE = "norm/impl:native/d:1"


def _case(name: str, milliseconds: float, roof: float, rate: float = 50e9) -> dict[str, object]:
    row = builders.row(name, milliseconds)
    return row | {"roof": roof, "bytes/s": rate}


def _write(folder: Path, number: int, *rows: dict[str, object]) -> Path:
    return builders.write_json(folder / f"{number}.json", list(rows))


def test_medians_extremes_and_memory_modes(tmp_path: Path) -> None:
    paths = [
        # Memory at 50 GB/s, then at 100 GB/s: the same kernel reaches less of it.
        _write(tmp_path, 1, _case(EAGER, 4, 0.25, 12.5e9), _case(NATIVE, 2, 0.9, 45e9)),
        _write(tmp_path, 2, _case(EAGER, 3, 0.25, 25e9), _case(NATIVE, 1, 0.6, 60e9)),
        _write(tmp_path, 3, _case(EAGER, 4, 0.75, 75e9), _case(NATIVE, 1.5, 0.7, 70e9)),
    ]
    table = result_tables.over_processes([load(path) for path in paths])
    native = [cell.text for cell in next(row for row in table.rows if row[0].text == NATIVE)]
    assert native[1:] == [
        *("3", "1.5 ms", "1 ms", "2 ms"),
        *("70.0 %", "60.0 %", "90.0 %", "90.0 %", "65.0 %", "50 … 100 GB/s"),
    ]
    assert len(table.legend) == 1
    assert "norm/d:1: native, 1.5 ms, 70.0 % of the roof" in table.legend[0]
    assert "2.67x eager (faster in 3 of 3 processes)" in table.legend[0]


def test_processes_that_agree_are_no_evidence_where_their_rows_are_noisy(tmp_path: Path) -> None:
    rows = _case(EAGER, 4, 0.25) | {"noisy": 1.0, "ci": 0.2}, _case(NATIVE, 2, 0.5)
    table = result_tables.over_processes([load(_write(tmp_path, n, *rows)) for n in (1, 2)])
    assert table.legend == ("fastest: norm/d:1: no ranking: eager: noisy (ci 20 %)",)


def test_one_memory_mode_is_not_split(tmp_path: Path) -> None:
    paths = [_write(tmp_path, n, _case(NATIVE, 1, 0.5 + n / 100, 50e9)) for n in (1, 2)]
    (row,) = result_tables.over_processes([load(path) for path in paths]).rows
    assert [cell.text for cell in row[8:10]] == ["", ""]


@pytest.mark.parametrize(("rate", "roof"), [(1.0, -1.0), (-1.0, 1.0), (1e100, 5e-324)])
def test_memory_without_a_speed_has_no_mode(rate: float, roof: float) -> None:
    case = Case("a", 0, State.MEASURED, seconds=1.0, counters={"bytes/s": rate, "roof": roof})
    assert result_tables.memory_rate(case) is None
