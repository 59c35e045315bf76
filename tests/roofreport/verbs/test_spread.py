# SPDX-License-Identifier: Apache-2.0
"""How times scatter: over processes, which are run or given, and within one."""

from __future__ import annotations

from pathlib import Path

import builders
import fake_roofbench
import pytest
from reports import Report
from roofreport.verbs import spread

EAGER = "norm/impl:eager/d:1"
NATIVE = "norm/impl:native/d:1"


@pytest.mark.parametrize("skipped", [False, True])
def test_processes_are_run_and_kept(skipped: bool, tmp_path: Path, report: Report) -> None:
    flags = f"--skip={NATIVE}" if skipped else ""
    program = fake_roofbench.script(tmp_path / "bin", f"{EAGER}:4,{NATIVE}:2", tmp_path / "runs", flags=flags)
    out = report("spread", f"--run={program}", "--processes=3", f"--keep={tmp_path / 'kept'}")
    assert ("faster in 3 of 3 processes" in out) != skipped
    assert ("skipped: so told" in out) == skipped
    assert len(list((tmp_path / "kept").glob("*.json"))) == 3
    assert (tmp_path / "runs").read_text() == "3"


def test_processes_without_a_result_are_an_error(tmp_path: Path, report: Report) -> None:
    assert "no process ended with a result" in report.refused(
        "spread", "--run=false", "--processes=2", f"--keep={tmp_path / 'kept'}"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give results, or --run=PROGRAM"),
        (["FILE", "--run=true"], "give results, or --run=PROGRAM"),
        (["FILE", "--processes=2"], "need --run=PROGRAM"),
        (["FILE", "--flag=--threads=1"], "need --run=PROGRAM"),
        (["--samples", "--run=true"], "--run writes none"),
        (["FILE", "--filter=("], "--filter=(: "),
    ],
)
def test_refusals(arguments: list[str], said: str, tmp_path: Path, report: Report) -> None:
    file = str(builders.write_json(tmp_path / "a.json"))
    assert said in report.refused("spread", *(file if word == "FILE" else word for word in arguments))


def test_a_filter_chooses_cases_of_files(tmp_path: Path, report: Report) -> None:
    out = report("spread", builders.write_json(tmp_path / "a.json"), "--filter=^copy")
    assert builders.COPY in out and builders.MATMUL not in out


def test_bars_show_how_many_values_lie_where() -> None:
    drawn = spread.bars([0.0, 0.0, 0.0, 0.0, 1.0, 2.0], 0.0, 1.0)
    assert len(drawn) == 32
    assert (drawn[0], drawn[-1]) == ("█", "▂")
    assert set(drawn[1:-1]) == {"·"}
    assert set(spread.bars([5.0, 5.0], 5.0, 5.0)) == {"█", "·"}


def test_a_case_in_two_states(tmp_path: Path, report: Report) -> None:
    journal = tmp_path / "run.jsonl"
    two = builders.line(builders.MATMUL, 0.2, samples_s=[202e-6] * 3 + [284e-6] * 17)
    one = builders.line(builders.COPY, 9.0, samples_s=[9e-3] * 7 + [90e-3])
    journal.write_text(builders.journal_text(builders.header(), two, one))
    out = report("spread", "--samples", journal)
    (row,) = [line for line in out.splitlines() if line.startswith(builders.MATMUL)]
    assert "split: 3 near 202 µs, 17 near 284 µs" in row
    assert row.count("█") == 1
    (disturbed,) = [line for line in out.splitlines() if line.startswith(builders.COPY)]
    assert "split" not in disturbed, "one sample is not a state"
    other = tmp_path / "other.jsonl"
    other.write_text(builders.journal_text(builders.header(started="2026-01-02T00:00:00+00:00"), two, one))
    out = report("spread", "--samples", journal, other, "--filter=copy")
    assert builders.MATMUL not in out
    assert f"{builders.COPY} [2]" in out and f"[2] {other}" in out


def test_what_has_no_samples_is_refused(tmp_path: Path, report: Report) -> None:
    assert "--journal=FILE" in report.refused("spread", "--samples", builders.write_json(tmp_path / "a.json"))
    journal = tmp_path / "run.jsonl"
    journal.write_text(builders.journal_text())
    without = builders.write_json(tmp_path / "b.json")
    assert "no samples of such a case" in report.refused("spread", "--samples", without, "--filter=copy")
    for samples in ([], ["--samples"]):
        refused = report.refused("spread", *samples, journal, "--filter=nothing")
        assert "--filter=nothing matches no case of these files" in refused
