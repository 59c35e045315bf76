# SPDX-License-Identifier: Apache-2.0
"""Runs beside programs that take all processors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import strange_folder
from built_program import TINY
from entries import COPY, NAMES, Entry, entry

pytestmark = pytest.mark.slow  # they take all processors from other tests

_OTHERS = 3 * (os.cpu_count() or 1)
_SPINS = "print(flush=True)\nwhile True: pass"
_CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "ROOFBENCH_WAIT_POLICY")


@pytest.fixture
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each of the others says when it begins."""
    for variable in _CHOICES:
        monkeypatch.delenv(variable, raising=False)
    spinning = [subprocess.Popen([sys.executable, "-c", _SPINS], stdout=subprocess.PIPE) for _ in range(_OTHERS)]
    try:
        for process in spinning:
            assert process.stdout and process.stdout.readline() == b"\n"
        yield
    finally:
        for process in spinning:
            process.kill()
            process.communicate(timeout=600)


@pytest.fixture(params=NAMES)
def copying(request: pytest.FixtureRequest, tmp_path: Path) -> Entry:
    return entry(request.param, "roofbench", COPY, tmp_path)


def context_of(out: Path) -> dict[str, Any]:
    return dict(json.loads(out.read_text())["context"])


@pytest.mark.usefixtures("busy_machine")
def test_a_busy_machine_is_named_before_the_first_case(
    copying: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to expect; the threads yield, which the result says. Variables of the user's reach the program."""
    out = tmp_path / "out.json"
    chosen = () if copying.is_python else ("--benchmark_filter=^copy/impl:stream/.*cache:warm", "--suite=quick")
    monkeypatch.setenv("BENCHMARK_OUT", str(out))
    done = copying("--axis=copy.bytes=1024", *chosen, *([f"--benchmark_out={out}"] if copying.is_python else []))
    assert done.returncode == 0, done.stderr
    said = re.findall(
        r"^roofbench: other programs use (\d+) % of the processors \((\d+) threads run or wait for \d+\): "
        r"a case takes (?:about ([\d.]+) times )?as long as alone, and no time can be judged; end them \(top",
        done.stderr,
        re.MULTILINE,
    )
    ((share, _, factor),) = said
    assert int(share) > 50
    assert factor == "" or float(factor) > 1
    assert context_of(out)["waiting_threads"] == "yield (OMP_WAIT_POLICY=passive)"


@pytest.mark.usefixtures("busy_machine")
@pytest.mark.parametrize("threads", [1, 2])
def test_the_way_out_and_the_choice_of_a_user(run: Any, tmp_path: Path, threads: int) -> None:
    out = tmp_path / "out.json"
    choice = {"OMP_WAIT_POLICY": "active" if threads == 1 else "PASSIVE"}
    if threads > (os.cpu_count() or 1):
        pytest.skip("it needs two processors")
    done = run(*TINY, f"--threads={threads}", f"--benchmark_out={out}", "--benchmark_min_time=1x", **choice)
    assert done.returncode == 0, done.stderr
    assert "other programs use" in done.stderr
    assert ("with --threads=1 about" in done.stderr) == (threads > 1)
    assert ("waiting_threads" in context_of(out)) == (threads > 1)


@pytest.mark.usefixtures("busy_machine")
def test_what_a_machine_allows_beside_others_is_not_what_it_allows(run: Any, tmp_path: Path) -> None:
    question = (f"--describe_checkpoint={strange_folder.write(tmp_path)}", "--roofs=measure")
    done = run(*question)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Other programs took \d+ % of the processors meanwhile: ", done.stdout, re.MULTILINE)
    assert json.loads(run(*question, "--benchmark_format=json").stdout)["others_share"] > 0.03
