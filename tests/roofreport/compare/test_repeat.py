# SPDX-License-Identifier: Apache-2.0
"""One program in several processes."""

from __future__ import annotations

from pathlib import Path

import fake_roofbench
import pytest
from roofreport.cli import main

EAGER = "norm/impl:eager/d:1"
NATIVE = "norm/impl:native/d:1"


@pytest.mark.parametrize("skipped", [False, True])
def test_processes_are_run_and_kept(skipped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = f"--skip={NATIVE}" if skipped else ""
    program = fake_roofbench.script(tmp_path / "bin", f"{EAGER}:4,{NATIVE}:2", tmp_path / "runs", flags=flags)
    assert main(["repeat", program, "--processes=3", f"--keep={tmp_path / 'kept'}"]) == 0
    out = capsys.readouterr().out
    assert ("faster in 3 of 3 processes" in out) != skipped
    assert ("skipped: so told" in out) == skipped
    assert len(list((tmp_path / "kept").glob("*.json"))) == 3
    assert (tmp_path / "runs").read_text() == "3"


def test_processes_without_a_result_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repeat", "false", "--processes=2", f"--keep={tmp_path / 'kept'}"]) == 2
    assert "no process ended with a result" in capsys.readouterr().err
