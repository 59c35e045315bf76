# SPDX-License-Identifier: Apache-2.0
"""The precision to serve in."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest
from roofreport.compare import axes
from roofreport.io.load import load


def _found(path: Path, *rows: dict[str, object]) -> list[axes.Choice]:
    return axes.precisions(load(builders.write_json(path, list(rows))).cases)


def test_the_fastest_comes_first(tmp_path: Path) -> None:
    (choice,) = _found(
        tmp_path / "a.json",
        builders.generation("a", "bf16", 50.0, 4e9),
        builders.generation("b", "bf16", 70.0, 4e9),
        builders.generation("a", "int8", 100.0, 2e9),
        builders.generation("a", "int4", 125.0, 1e9),
    )
    assert choice.work == "generate/model:a/new:8"
    assert [one.precision for one in choice.servings] == ["int4", "int8", "bf16"]
    assert choice.lead == pytest.approx(1.25)
    assert choice.share_of_bytes == pytest.approx(0.5)
    assert choice.servings[1].next_token_p95 == pytest.approx(20e-3)


def test_cases_without_a_choice_are_left_out(tmp_path: Path) -> None:
    rows = [
        builders.generation("a", "bf16", 50.0, 4e9),
        builders.generation("a", "int8", 100.0, 2e9) | {"itl_ms": 0.0},
        builders.row("gemv/precision:int8/n:1", 1.0),
        builders.row("gemv/precision:int4/n:1", 1.0),
        builders.error_row("generate/model:a/precision:int4/new:8", "failed: no"),
    ]
    assert _found(tmp_path / "a.json", *rows) == []
