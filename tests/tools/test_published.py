# SPDX-License-Identifier: Apache-2.0
"""tools/published: what it runs, in which order, and what it says when it cannot."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from published_runs.__main__ import main
from published_runs.experiments import EXPERIMENTS

FAKE = '#!/bin/sh\necho "$(basename "$0") $*" >>{log}\nexit {status}\n'


def tree(folder: Path, status: int = 0) -> Path:
    for name, ends in (("build/release/bin/roofbench", status), ("tools/report", 0)):
        program = folder / name
        program.parent.mkdir(parents=True)
        program.write_text(FAKE.format(log=folder / "log", status=ends))
        program.chmod(0o755)
    return folder


def test_a_run_and_then_its_reports(tmp_path: Path) -> None:
    assert main(["passes", "--axis=train_step.size=small"], tree(tmp_path)) == 0
    run, table, params = (tmp_path / "log").read_text().splitlines()
    assert run.startswith("roofbench --benchmark_filter=^train_step/")
    assert run.endswith("--benchmark_out=passes.json --axis=train_step.size=small")
    assert table == "report table passes.json --training"
    assert params == "report params passes.json"


def test_nothing_is_told_of_a_run_that_failed(tmp_path: Path) -> None:
    assert main(["mixed"], tree(tmp_path, status=1)) == 1
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_show_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["micro", "--show", "--threads=1"], tree(tmp_path)) == 0
    run, report = capsys.readouterr().out.splitlines()
    assert shlex.split(run)[-1] == "--threads=1"
    assert report == "tools/report table micro.json --format=gpt_fast"
    assert not (tmp_path / "log").exists()


def test_the_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == [experiment.name for experiment in EXPERIMENTS]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["all\x1b[31m"], "no experiment is called all\\x1b[31m: passes, "),
        (["--threads=1"], "--threads=1 before the name"),
        (["stages"], "roofbench is missing; tools/setup builds it"),
    ],
)
def test_what_cannot_be_run(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments, tmp_path)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
