# SPDX-License-Identifier: Apache-2.0
"""What the exporter of compiled packages says when it cannot make one."""

from __future__ import annotations

from pathlib import Path

import compile_package
import pytest


def arguments(output: Path, version: str) -> list[str]:
    given = ["--operation=softmax", "--input=float32:2x8", "--threads=2", f"--torch-version={version}"]
    return [*given, f"--output={output}"]


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert compile_package.main(arguments(tmp_path / "softmax.pt2", "2.11.0")) == 1
    assert "there is no C++ compiler: g++ is not on the PATH" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_another_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_package.main(arguments(tmp_path / "softmax.pt2", "1.2.3")) == 1
    assert "that of roofbench 1.2.3" in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())
