"""Every command of the README works, and its family compiles into what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from built_program import ROOT, Run

README = (ROOT / "README.md").read_text()


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


# Its own commands, which other tests and continuous integration run.
ELSEWHERE = {"tools/bench", "tools/test"}
RUN_HERE = ("build/release/bin/roofbench ", "python3 /usr/share/benchmark/compare.py ", "tools/report ")


def test_nothing_else_is_promised() -> None:
    for command in commands():
        known = command in ELSEWHERE or command.startswith(
            ("build/release/bin/roofbench ", "python3 /usr/share/", "tools/report")
        )
        assert known, f"no test runs the README's command {command}"


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("build/release/bin/roofbench ")])
def test_program(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*shlex.split(command)[1:], "--benchmark_min_time=2x")
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
def test_comparison(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in commands():
        if "--benchmark_out=" in command:
            assert run(*shlex.split(command)[1:], "--benchmark_min_time=20x").returncode == 0
    for command in commands():
        program, *arguments = shlex.split(command)
        if program == "tools/report":
            done = subprocess.run(
                [ROOT / program, *arguments], capture_output=True, text=True, check=False, timeout=120
            )
            # Whether the machine was disturbed between the two runs is not the command's fault.
            assert done.returncode in (0, 1), done.stderr
            assert "matmul/impl:onednn/dtype:fp32/n:256" in done.stdout
        elif program == "python3":
            if not Path(arguments[0]).exists():
                pytest.skip("compare.py is not installed: apt-get install libbenchmark-tools")
            python = ROOT / ".venv" / "bin" / "python"
            done = subprocess.run([python, *arguments], capture_output=True, text=True, check=False, timeout=120)
            assert done.returncode == 0, done.stderr
            assert "OVERALL_GEOMEAN" in done.stdout


def test_the_family_is_one_that_is_built() -> None:
    section = README.split("\n## Adding a family\n")[1].split("\n## ")[0]
    (family,) = re.findall(r"^```cpp\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert family in (ROOT / "benchmarks" / "micro" / "gelu.cc").read_text()
