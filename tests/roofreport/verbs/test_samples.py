# SPDX-License-Identifier: Apache-2.0
"""The picture of samples."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest
from roofreport.cli import main
from roofreport.verbs import results


def test_bars_show_how_many_values_lie_where() -> None:
    drawn = results.bars([0.0, 0.0, 0.0, 0.0, 1.0, 2.0], 0.0, 1.0)
    assert len(drawn) == 32
    assert (drawn[0], drawn[-1]) == ("█", "▂")
    assert set(drawn[1:-1]) == {"·"}
    assert set(results.bars([5.0, 5.0], 5.0, 5.0)) == {"█", "·"}


def test_a_case_in_two_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "run.jsonl"
    two = builders.line(builders.MATMUL, 0.2, samples_s=[202e-6] * 3 + [284e-6] * 17)
    one = builders.line(builders.COPY, 9.0, samples_s=[9e-3] * 7 + [90e-3])
    journal.write_text(builders.journal_text(builders.header(), two, one))
    assert main(["samples", str(journal)]) == 0
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if line.startswith(builders.MATMUL)]
    assert "split: 3 near 202 µs, 17 near 284 µs" in row
    assert row.count("█") == 1
    (disturbed,) = [line for line in out.splitlines() if line.startswith(builders.COPY)]
    assert "split" not in disturbed, "one sample is no state"
    assert main(["samples", str(journal), "--case=copy"]) == 0
    assert builders.MATMUL not in capsys.readouterr().out


def test_what_has_no_samples_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["samples", str(builders.write_json(tmp_path / "a.json"))]) == 2
    assert "--journal=FILE" in capsys.readouterr().err
    journal = tmp_path / "run.jsonl"
    journal.write_text(builders.journal_text())
    assert main(["samples", str(journal), "--case=nothing"]) == 2
    assert "no samples of such a case" in capsys.readouterr().err
