# SPDX-License-Identifier: Apache-2.0
"""The environment that tools/peers makes of its requirements, with a stand-in for python3: nothing is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Stands in for `python3 -m venv FOLDER` and its python. Logs pip, the compiler and CMAKE_ARGS; compiling fails if
# $BROKEN is set.
PYTHON = """#!/bin/bash
case "$*" in
  *"-m venv"*) mkdir -p "${@: -1}/bin" && cp "$0" "${@: -1}/bin/python" ;;
  *"pip install"*)
    echo "$CXX $CMAKE_ARGS $*" >>"$PIPS"
    [[ $* != *built* || -z ${BROKEN:-} ]] ;;
  *) echo "ran $*" ;;
esac
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    for file in (ROOT / "tools/peers", *ROOT.glob("tools/requirements-*.txt")):
        shutil.copy(file, tmp_path / "tools")
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(PYTHON)
    for name in ("clang", "clang++"):
        (python.parent / name).write_text("#!/bin/bash\necho clang version ${CLANG:-14}\n")
    for program in python.parent.iterdir():
        program.chmod(0o755)
    return tmp_path


def call(copy: Path, verb: str, **more: str) -> tuple[list[str], subprocess.CompletedProcess[str]]:
    """The installations of the call, and its result."""
    pips = copy / "pips"
    pips.write_text("")
    given = ("ROOFBENCH_PEERS_PYTHON", "CC", "CXX")
    environment = {name: value for name, value in os.environ.items() if name not in given}
    environment |= {"PATH": f"{copy / 'bin'}:{environment['PATH']}", "PIPS": str(pips)} | more
    command: list[str | Path] = [copy / "tools/peers", *verb.split(), "--rounds=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return pips.read_text().splitlines(), done


def test_it_is_made_once_and_updated_when_pins_change(copy: Path) -> None:
    installed, done = call(copy, "decode")
    assert done.stdout.endswith("peer_runs decode --rounds=1\n")
    assert [line.rpartition("/")[2] for line in installed] == ["requirements-peers.txt", "requirements-peers-built.txt"]
    assert installed[1].startswith("clang++ -DGGML_NATIVE=ON ")
    assert "--no-cache-dir" in installed[1]
    assert call(copy, "prefill")[0] == []
    with (copy / "tools/requirements-peers.txt").open("a") as file:
        file.write("another==1\n")
    assert len(call(copy, "decode")[0]) == 2
    assert call(copy, "decode", CLANG="15")[0][1].startswith("clang++ ")
    assert call(copy, "decode", CXX="c++")[0][1].startswith("c++ ")


def test_other_peers_are_measured_if_compiling_fails(copy: Path) -> None:
    installed, done = call(copy, "decode", BROKEN="1")
    assert len(installed) == 2
    assert done.returncode == 0
    assert "compiling tools/requirements-peers-built.txt failed" in done.stderr
    assert "ran " in done.stdout
    assert len(call(copy, "decode")[0]) == 2  # tried again
    assert call(copy, "decode")[0] == []


def test_training_installs_pytorch_only(copy: Path) -> None:
    installed, done = call(copy, "train")
    assert [line.rpartition(" ")[2] for line in installed] == ["numpy"]
    assert "llama.cpp" not in done.stderr


def test_a_given_environment_is_used_unchanged(copy: Path) -> None:
    installed, done = call(copy, "decode", ROOFBENCH_PEERS_PYTHON=str(copy / "bin/python3"))
    assert (installed, done.returncode) == ([], 0)
    installed, done = call(copy, "decode", ROOFBENCH_PEERS_PYTHON="/no/python")
    assert (installed, done.returncode) == ([], 2)
    assert "ROOFBENCH_PEERS_PYTHON=/no/python is not a program" in done.stderr


@pytest.mark.parametrize("arguments", ["prefill -h", "no_verb"])
def test_help_needs_no_environment(copy: Path, arguments: str) -> None:
    installed, done = call(copy, arguments)
    assert installed == []
    assert not (copy / "build").exists()
    assert done.stdout.endswith(f"peer_runs {arguments} --rounds=1\n")


def test_the_real_help_needs_no_environment() -> None:
    for arguments, words in {"decode --help": "--depth TOKENS", "": "training steps", "train -h": "--samples"}.items():
        command: list[str | Path] = [ROOT / "tools/peers", *arguments.split()]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
        assert (done.returncode, words in done.stdout) == (0, True), done.stderr
        assert "Making" not in done.stderr
