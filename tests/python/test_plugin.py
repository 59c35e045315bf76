# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: rows by the id of the test, options by mark, and an exit status that gates."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from roofreport.history.record import of_file
from roofreport.history.store import open_store
from roofreport.io.load import load

QUICKLY = "max_time=0.001, max_wall=0.1"
TESTS = f"""
import pytest

@pytest.mark.parametrize("n", [8, 16])
def test_sum(roofbench, n):
    assert roofbench(sum, list(range(n)), {QUICKLY}).ok

@pytest.mark.roofbench(cache="warm", {QUICKLY})
def test_two(roofbench):
    first = roofbench(sum, [1], name="first")
    assert first.axes["cache"] == "warm"
    assert roofbench.measure(sum, [1, 2], cache="cold", name="second").axes["cache"] == "cold"
    assert roofbench.work.Work is roofbench.Work

def test_other():
    pass
"""

Pytest = Callable[..., Any]


@pytest.fixture
def measured(run_python: Callable[..., Any], tmp_path: Path) -> Pytest:
    def run(text: str, *flags: str) -> Any:
        (tmp_path / "test_kernels.py").write_text(text)
        plugins = ("-p", "roofbench._pytest", "-p", "no:cacheprovider")
        return run_python("-m", "pytest", *plugins, "--strict-markers", "-q", "test_kernels.py", *flags)

    return run


@pytest.mark.slow
def test_rows_have_the_ids_of_the_tests(measured: Pytest, tmp_path: Path) -> None:
    done = measured(TESTS, "--roofbench-journal=out.jsonl")
    assert done.returncode == 0, done.stdout
    assert [case.name for case in load(tmp_path / "out.jsonl").cases] == [
        "test_kernels.py::test_sum[8]",
        "test_kernels.py::test_sum[16]",
        "test_kernels.py::test_two/first",
        "test_kernels.py::test_two/second",
    ]
    summary = done.stdout.partition(" roofbench ")[2]
    assert summary.count("test_kernels.py::") == 4
    header = json.loads((tmp_path / "out.jsonl").read_text().partition("\n")[0])
    assert header["context"]["program"] == "pytest"


@pytest.mark.slow
def test_a_mark_selects_the_tests_that_measure(measured: Pytest) -> None:
    done = measured(TESTS, "-m", "not roofbench")
    assert done.returncode == 0
    assert "1 passed, 3 deselected" in done.stdout


@pytest.mark.slow
def test_a_red_row_fails_its_test_and_is_written(measured: Pytest, tmp_path: Path) -> None:
    text = f"""
import numpy as np

def test_wrong(roofbench):
    x = np.ones(100, np.float32)
    roofbench(lambda x: x + 1, x, reference=lambda x: x + 2, {QUICKLY})

def test_twice(roofbench):
    roofbench(sum, [1], {QUICKLY})
    roofbench(sum, [1], {QUICKLY})
"""
    done = measured(text, "--roofbench-journal=out.jsonl")
    assert done.returncode == 1
    assert "2 failed" in done.stdout
    assert "is measured twice: give each call its name=" in done.stdout
    wrong, twice = load(tmp_path / "out.jsonl").cases
    assert wrong.state.value == "failed"
    assert wrong.reason in done.stdout
    assert (twice.name, twice.state.value) == ("test_kernels.py::test_twice", "measured")


@pytest.mark.slow
def test_xdist_is_refused(measured: Pytest, tmp_path: Path) -> None:
    done = measured(TESTS, "-n2")
    assert done.returncode == 1
    assert "1 passed, 3 errors" in done.stdout
    assert "take the processors from each other" in done.stdout
    done = measured(TESTS, "-n2", "--roofbench-journal=out.jsonl")
    assert done.returncode == 4
    assert "take the processors from each other" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


# Other programs of this machine may make a row noisy, which the gate does not judge.
TRUSTED = """
from roofbench import _result

write = _result.write_record

def without_doubts(path, facts, families, lines):
    quiet = {"noisy": 0, "disturbed": 0, "throttled": 0, "samples": 100}
    write(path, facts, families, [{**line, "counters": {**line["counters"], **quiet}} for line in lines])

_result.write_record = without_doubts
"""


def add_nights(store: Path, record: Path, factor: float) -> None:
    """Ten earlier nights, in which each case took `factor` of its time in this record."""
    header, *lines = map(json.loads, record.read_text().splitlines())
    first = datetime.now(timezone.utc) - timedelta(days=20)
    with open_store(str(store), create=True) as opened:
        for night in range(10):
            header["context"]["program_revision"] = f"c0ffee{night:02d}"
            # No two nights are equal to the last digit, which would be one run.
            slower = [{**line, "median_s": line["median_s"] * factor * (1 + night * 1e-6)} for line in lines]
            record.write_text("".join(f"{json.dumps(one)}\n" for one in (header, *slower)))
            opened.add(of_file(record), started=first + timedelta(days=night))


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "finding", "status"), [(1e-3, "SLOWER", 1), (1e3, "FASTER", 0)])
def test_the_gate_decides_the_exit_status(
    factor: float, finding: str, status: int, measured: Pytest, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(TRUSTED)
    assert measured(TESTS, "--roofbench-journal=out.jsonl").returncode == 0
    add_nights(tmp_path / "history.db", tmp_path / "out.jsonl", factor)
    done = measured(TESTS, "--roofbench-gate=history.db")
    assert (done.returncode, done.stdout.count(f"{finding} ")) == (status, 4), done.stdout


@pytest.mark.slow
def test_a_gate_without_its_history_or_the_reports_says_so(measured: Pytest, package_env: dict[str, str]) -> None:
    done = measured(TESTS, "--roofbench-gate=none.db")
    assert done.returncode == 4
    assert "there is no history yet" in done.stderr
    assert "passed" not in done.stdout, "nothing was measured"
    assert importlib.util.find_spec("roofreport")
    package_env["PYTHONPATH"] = package_env["PYTHONPATH"].partition(":")[0]
    done = measured(TESTS, "--roofbench-gate=none.db")
    assert done.returncode == 4
    assert "pip install '.[history]' in a checkout of roofbench" in done.stderr
