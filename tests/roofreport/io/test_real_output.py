# SPDX-License-Identifier: Apache-2.0
"""Output that roofbench itself writes: read, compared and drawn."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import builders
import pytest
from reports import Report
from roofreport.io.load import load
from roofreport.io.result import State

_PROGRAM = builders.ROOT / "build/release/bin/roofbench"
pytestmark = pytest.mark.skipif(not _PROGRAM.exists(), reason=f"{_PROGRAM.name} is not built (build/release)")

_CASES = ["matmul/impl:eager/dtype:fp32/n:256", "matmul/impl:eager/dtype:tf32/n:256"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result and a journal of two repetitions of a measured case and of one that CPUs cannot run."""
    folder = tmp_path_factory.mktemp("real")
    subprocess.run(
        [
            _PROGRAM,
            "--suite=full",
            "--benchmark_filter=^matmul/impl:eager/dtype:(fp32|tf32)/n:256/",
            "--benchmark_repetitions=2",
            "--benchmark_min_time=5x",
            f"--benchmark_out={folder / 'run.json'}",
            f"--journal={folder / 'run.jsonl'}",
        ],
        check=True,
        capture_output=True,
    )
    return folder


def test_both_formats_agree(run: Path) -> None:
    a, b = load(run / "run.json"), load(run / "run.jsonl")
    assert list(a.by_name()) == list(b.by_name()) == _CASES
    assert [case.state for case in a.cases][:2] == [State.MEASURED] * 2
    assert a.cases[-1].state is b.cases[-1].state is State.SKIPPED
    assert a.cases[-1].reason == b.cases[-1].reason
    for one, other in zip(a.cases[:2], b.cases[:2], strict=True):
        assert one.seconds == pytest.approx(other.seconds, rel=1e-6)
        assert one.flops == pytest.approx(2 * 256**3, rel=1e-6)
        assert one.counters.keys() == other.counters.keys()
    assert a.context["roofbench_version"] == b.context["roofbench_version"]


@pytest.mark.parametrize("name", ["run.json", "run.jsonl"])
def test_every_verb_reads_it(name: str, run: Path, tmp_path: Path, report: Report) -> None:
    path = str(run / name)
    assert "skipped: tf32 is a CUDA precision" in report("table", path)
    compared = report("compare", path, path)
    assert re.search("1 (SAME|AMBIGUOUS), 1 MISSING", compared), "AMBIGUOUS if the machine was busy"
    report("roofline", path, f"--html={tmp_path / 'a.html'}", f"--svg={tmp_path / 'a.svg'}")
    assert all(case in (tmp_path / "a.html").read_text() for case in _CASES)
