# SPDX-License-Identifier: Apache-2.0
"""Rows per expert from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from built_program import QUICKLY, Run

CASE = (
    "--benchmark_filter=^grouped_mm/impl:naive/",
    *(f"--axis=grouped_mm.{size}=32" for size in "nk"),
    "--axis=cache=warm",
)
GIVEN = "--axis=grouped_mm.routing=given"


def rows_of(run: Run, *flags: str) -> list[dict[str, Any]]:
    done = run(*CASE, GIVEN, *QUICKLY, "--check=on", "--benchmark_format=json", *flags)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["benchmarks"]
    return rows


def test_rows_of_experts_are_those_of_the_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "routing").write_text("6\n0, 1\n\n3\r\n")
    for rows, largest in (10, 6), (20, 12), (5, 3):
        (row,) = rows_of(
            run, f"--routing={tmp_path / 'routing'}", "--axis=grouped_mm.experts=4", f"--axis=grouped_mm.rows={rows}"
        )
        assert (
            row["name"] == f"grouped_mm/impl:naive/dtype:bf16/routing:given/experts:4/rows:{rows}/n:32/k:32/cache:warm"
        )
        assert row["max_over_mean_load"] == pytest.approx(largest * 4 / rows), "counts are scaled to the case's rows"
        # Three weights are read, of 32 x 32 in bf16.
        assert row["bytes/s"] * row["real_time"] == pytest.approx(1e6 * 2 * (3 * 32 * 32 + 2 * 32 * rows), rel=1e-3)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ((), "needs --routing=FILE: rows per expert, as 1,2,3"),
        (("--routing={}",), "--routing={} has rows for 3 experts: --axis=grouped_mm.experts=3"),
    ],
)
def test_a_case_without_its_routing_is_skipped(run: Run, tmp_path: Path, flags: tuple[str, ...], reason: str) -> None:
    path = tmp_path / "routing"
    path.write_text("1,2,3")
    rows = rows_of(
        run, *(flag.format(path) for flag in flags), "--axis=grouped_mm.experts=2,8", "--axis=grouped_mm.rows=16"
    )
    assert [row["error_message"] for row in rows] == [f"skipped: {reason.format(path)}"] * 2
