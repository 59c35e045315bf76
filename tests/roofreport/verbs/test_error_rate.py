# SPDX-License-Identifier: Apache-2.0
"""The error-rate experiment on a program of known speed."""

from __future__ import annotations

import json
from pathlib import Path

import fake_roofbench
import numpy as np
import pytest
from roofreport.studies import error_rate
from roofreport.studies.error_rate import FEWEST_CASES, main
from scipy import stats

_CASES = ",".join(f"c{i}/n:1:1.0" for i in range(9))


@pytest.fixture
def program(tmp_path: Path) -> str:
    # The fake takes the injected delay as its factor.
    before = "for f; do case $f in --inject_delay=*) more=--factor=1${f#--inject_delay=0};; esac; done"
    return fake_roofbench.script(tmp_path / "bin", _CASES, tmp_path / "runs", before, "--noise=0.005")


def test_records_resumes_and_evaluates(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "pool"
    arguments = ["record", f"--out={out}", "--minutes=60", f"--binary={program}", "--filter=c", "--rounds=12"]
    assert main(arguments) == 0
    files = sorted(out.glob("0*-*.json"))
    assert len(files) == 4 * 12
    (out / "0011-base.json").unlink()
    (out / "0005-slow3.json").unlink()
    runs = int((tmp_path / "runs").read_text())
    assert main(arguments) == 0
    assert int((tmp_path / "runs").read_text()) - runs == 8
    recorded = error_rate.read_pool(out)
    assert recorded.log_times.shape == (12, 4, 9)
    assert np.median(recorded.arm("slow5") - recorded.arm("base")) == pytest.approx(np.log(1.05), abs=0.01)
    capsys.readouterr()
    status = main(["evaluate", str(out), "--budget=60min"])
    text = capsys.readouterr().out
    assert "false verdicts" in text and "injected 5 %" in text and "U test" in text
    assert status in (0, 1)


def test_another_binary_is_refused(program: str, tmp_path: Path) -> None:
    out = tmp_path / "pool"
    arguments = ["record", f"--out={out}", "--minutes=60", f"--binary={program}", "--filter=c", "--rounds=2"]
    assert main(arguments) == 0
    Path(program).write_text(Path(program).read_text() + "# changed\n")
    assert main(arguments) == 2


@pytest.mark.parametrize("flag", ["--filter", "--benchmark_filter"])
def test_either_name_of_the_filter_chooses(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert main(["record", f"--out={tmp_path / 'a'}", f"--binary={program}", f"{flag}=c[01]/"]) == 2
    assert f"--filter chooses 2 cases; at least {FEWEST_CASES} are wanted" in capsys.readouterr().err


def test_too_few_minutes(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", f"--out={tmp_path / 'b'}", f"--binary={program}", "--filter=c", "--minutes=0.01"]) == 2
    assert "fewer or smaller cases" in capsys.readouterr().err


def test_nothing_recorded(tmp_path: Path) -> None:
    assert main(["evaluate", str(tmp_path)]) == 2
    (tmp_path / "plan.json").write_text(json.dumps({"x": 1}))
    assert main(["evaluate", str(tmp_path)]) == 2


def test_u_test_is_scipys_for_each_case() -> None:
    random = np.random.default_rng(0)
    base, new = random.normal(size=(20, 3)), random.normal([0, 1, 2], size=(20, 3))
    expected = [stats.mannwhitneyu(base[:, i], new[:, i]).pvalue < 0.05 for i in range(3)]
    assert list(error_rate.u_test_calls(base, new)) == expected
