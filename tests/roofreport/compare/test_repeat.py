# SPDX-License-Identifier: Apache-2.0
"""One program in several processes."""

from __future__ import annotations

from pathlib import Path

import fake_roofbench
import pytest
from roofreport.cli import main

EAGER = "norm/impl:eager/d:1"
NATIVE = "norm/impl:native/d:1"


def test_processes_are_run_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = fake_roofbench.script(tmp_path / "roofbench", f"{EAGER}:4,{NATIVE}:2", tmp_path / "runs")
    assert main(["repeat", program, "--processes=3", f"--keep={tmp_path / 'kept'}"]) == 0
    out = capsys.readouterr().out
    assert "faster in 3 of 3 processes" in out
    assert len(list((tmp_path / "kept").glob("*.json"))) == 3
    assert (tmp_path / "runs").read_text() == "3"


def test_a_case_that_cannot_run_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = f"{EAGER}:4,{NATIVE}:2"
    program = fake_roofbench.script(tmp_path / "roofbench", times, tmp_path / "runs", flags=f"--skip={NATIVE}")
    assert main(["repeat", program, "--processes=2", f"--keep={tmp_path / 'kept'}"]) == 0
    out = capsys.readouterr().out
    assert "skipped: so told" in out
    assert "fastest" not in out


def test_processes_without_a_result_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "broken"
    script.write_text("#!/bin/sh\necho no such flag >&2\nexit 2\n")
    script.chmod(0o755)
    assert main(["repeat", str(script), "--processes=2", f"--keep={tmp_path / 'kept'}"]) == 2
    assert "no process ended with a result" in capsys.readouterr().err
