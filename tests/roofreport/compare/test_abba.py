# SPDX-License-Identifier: Apache-2.0
"""A B B A on a program of known speed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import fake_roofbench
import pytest
from roofreport.cli import main
from roofreport.compare import axes, command
from roofreport.duration import seconds
from roofreport.errors import UnusableInputError
from roofreport.stats import sequential

_CASES = "a/n:1:1.0,b/n:1:5.0,c/n:1:0.2"


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Its counter makes each run differ."""
    return fake_roofbench.script(tmp_path / "bin", _CASES, tmp_path / "runs")


def _abba(base: str, new: str, state: Path, *more: str) -> int:
    return main(["abba", base, new, f"--state={state}", "--budget=60s", "--pairs=16", *more])


def _order(state: Path) -> str:
    files = sorted(
        (path for path in state.glob("0*-*.json") if "pilot" not in path.name), key=lambda p: p.stat().st_mtime_ns
    )
    return "".join(path.stem[-1] for path in files)


def test_same_program(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _abba(program, program, tmp_path / "state", "--flag=--noise=0.002") == 0
    captured = capsys.readouterr()
    assert "3 cases: 3 SAME" in captured.out
    assert "pair 10" in captured.err
    assert "left" in captured.err
    order = _order(tmp_path / "state")
    assert len(order) >= 20
    assert order.startswith("ABBAABBAABBA")


def test_slower_flags(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _abba(program, f"{program} --slow=b/n:1", tmp_path / "state") == 1
    out = capsys.readouterr().out
    slower = [line for line in out.splitlines() if line.startswith("SLOWER")]
    assert len(slower) == 1
    assert "b/n:1" in slower[0]


def test_faster(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _abba(program, f"{program} --factor=0.8", tmp_path / "state") == 0
    assert "3 FASTER" in capsys.readouterr().out


def test_shares_of_the_roof_tell_what_times_on_changing_memory_do_not(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unsteady = f"{program} --memory=0.4"
    _abba(unsteady, f"{unsteady} --factor=0.9", tmp_path / "time")
    assert "3 AMBIGUOUS (time" in capsys.readouterr().out
    assert _abba(unsteady, f"{unsteady} --factor=0.9", tmp_path / "roof", "--metric=roof") == 0
    out = capsys.readouterr().out
    assert "3 FASTER (roof" in out
    assert "+11." in out
    assert _abba(unsteady, f"{unsteady} --factor=1.1", tmp_path / "slower", "--metric=roof") == 1
    assert "3 SLOWER (roof" in capsys.readouterr().out


def test_a_case_without_the_metric_is_missing(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _abba(program, program, tmp_path / "state", "--metric=ttft_ms")
    out = capsys.readouterr().out
    assert "3 MISSING" in out
    assert "no ttft_ms" in out


def test_a_metric_without_a_direction_is_refused(program: str, tmp_path: Path) -> None:
    assert _abba(program, program, tmp_path / "state", "--metric=samples") == 2


def test_resumes(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    assert _abba(program, f"{program} --factor=1.3", state) == 1
    whole = capsys.readouterr().out
    runs = int((tmp_path / "runs").read_text())
    # As if the comparison had been stopped after its fifth pair, within the sixth.
    stored = json.loads((state / "state.json").read_text())
    dropped = stored["pairs"][5:]
    stored["pairs"] = stored["pairs"][:5]
    stored["seconds"] -= sum(pair["seconds"] for pair in dropped)
    (state / "state.json").write_text(json.dumps(stored))
    assert _abba(program, f"{program} --factor=1.3", state) == 1
    captured = capsys.readouterr()
    assert "resumed after 5 pairs" in captured.err
    assert "3 SLOWER" in captured.out and "3 SLOWER" in whole
    assert 10 <= int((tmp_path / "runs").read_text()) - runs <= 22
    # A finished one gives its verdict again without a run.
    runs = int((tmp_path / "runs").read_text())
    assert _abba(program, f"{program} --factor=1.3", state) == 1
    assert int((tmp_path / "runs").read_text()) == runs
    assert capsys.readouterr().out == captured.out


def test_state_of_another_comparison_is_refused(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    assert _abba(program, program, state, "--filter=a/") in (0, 1)
    assert _abba(program, f"{program} --factor=2", state, "--filter=a/") == 2
    assert "another comparison" in capsys.readouterr().err
    assert _abba(program, f"{program} --factor=2", state, "--filter=a/", "--restart") == 1
    (state / "state.json").write_text("{")
    assert _abba(program, f"{program} --factor=2", state, "--filter=a/") == 2


_THEIRS_AND_OURS = (
    "f/impl:x/n:1:1.0,f/impl:y/n:1:0.7,f/impl:x/n:2:5.0,f/impl:y/n:2:5.0,f/impl:x/n:3:1,f/impl:y/n:4:1,g/n:1:1"
)


def test_cases_that_differ_in_one_axis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = fake_roofbench.script(tmp_path / "bin", _THEIRS_AND_OURS, tmp_path / "runs")
    flags = [f"--state={tmp_path / 'state'}", "--budget=60s", "--pairs=12", "--flag=--noise=0.002"]
    assert main(["abba", program, "--match=impl:x=impl:y", *flags]) == 0
    out = capsys.readouterr().out
    verdicts = {line.split()[1]: line.split()[0] for line in out.splitlines()[2:6]}
    assert verdicts == {"f/n:1": "FASTER", "f/n:2": "SAME", "f/n:3": "MISSING", "f/n:4": "NEW"}
    assert "base impl:x, new impl:y" in out
    # The opposite direction needs a separate state.
    assert main(["abba", program, "--match=impl:y=impl:x", *flags]) == 2
    assert "another comparison" in capsys.readouterr().err
    assert main(["abba", program, "--match=impl:y=impl:x", *flags, "--restart"]) == 1
    assert any(line.startswith("SLOWER") and "f/n:1" in line for line in capsys.readouterr().out.splitlines())


def test_a_case_that_fails_on_one_side_of_a_match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = fake_roofbench.script(tmp_path / "bin", _THEIRS_AND_OURS, tmp_path / "runs")
    flags = ["--budget=60s", "--pairs=10", "--match=impl:x=impl:y", "--filter=n:[12]"]
    assert main(["abba", program, *flags, f"--state={tmp_path / 'new'}", "--flag=--fail=f/impl:y/n:1"]) == 1
    assert any(line.startswith("FAILED") and "f/n:1" in line for line in capsys.readouterr().out.splitlines())
    assert main(["abba", program, *flags, f"--state={tmp_path / 'base'}", "--flag=--skip=f/impl:x/n:1"]) == 0
    assert any(line.startswith("MISSING") and "f/n:1" in line for line in capsys.readouterr().out.splitlines())


def test_a_match_that_matches_nothing(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["abba", program, "--match=impl:x=impl:y", f"--state={tmp_path / 's'}"]) == 2
    assert "impl:x=impl:y" in capsys.readouterr().err


def test_one_program_alone_needs_a_match(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["abba", program]) == 2
    assert "--match" in capsys.readouterr().err


def test_cases_that_differ_in_two_axes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = "f/impl:x/type:a/n:1:1.0,f/impl:y/type:b/n:1:0.7,f/impl:y/type:a/n:1:0.1,f/impl:x/type:b/n:2:1"
    program = fake_roofbench.script(tmp_path / "bin", times, tmp_path / "runs")
    flags = [f"--state={tmp_path / 'state'}", "--budget=60s", "--pairs=12", "--flag=--noise=0.002"]
    assert main(["abba", program, "--match=impl:x/type:a=impl:y/type:b", *flags]) == 0
    (line,) = capsys.readouterr().out.splitlines()[2:3]
    assert line.split()[:2] == ["FASTER", "f/n:1"] and "-30" in line


@pytest.mark.parametrize(
    "text",
    [
        *("", "impl:x", "impl:x=impl:x", "impl:x=n:1", "impl:=impl:y", "impl:x=impl:y=impl:z"),
        *("impl:x/n:1=impl:y", "impl:x/n:1=impl:x/n:1", "impl:x/=impl:y/", "impl:x/impl:y=impl:z/impl:z"),
    ],
)
def test_what_is_no_match(text: str) -> None:
    with pytest.raises(UnusableInputError):
        axes.parse_match(text)


def test_failed_and_skipped_cases(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _abba(program, f"{program} --fail=a/n:1", tmp_path / "one", "--flag=--noise=0.002") == 1
    out = capsys.readouterr().out
    assert any(line.startswith("FAILED") and "a/n:1" in line for line in out.splitlines())
    assert "2 SAME" in out
    assert _abba(f"{program} --skip=a/n:1", program, tmp_path / "two", "--flag=--noise=0.002") == 0
    assert any(line.startswith("MISSING") and "a/n:1" in line for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("once", ["--fail=a/n:1", "--skip=a/n:1", "--crash"])
def test_what_goes_wrong_once_is_run_again(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], once: str
) -> None:
    sides = f"{program} {once} --in_run=7", program
    assert _abba(*sides, tmp_path / "state", "--flag=--noise=0.002") == 0
    out = capsys.readouterr().out
    assert "3 SAME" in out
    # A comparison that is over gives the same verdicts from its files.
    assert _abba(*sides, tmp_path / "state", "--flag=--noise=0.002") == 0
    assert capsys.readouterr().out == out


def test_crash_of_the_new_program(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _abba(program, f"{program} --crash", tmp_path / "state") == 1
    assert "SIGSEGV" in capsys.readouterr().out


def test_crash_of_the_base(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _abba(f"{program} --crash", program, tmp_path / "state") == 2
    assert "SIGSEGV" in capsys.readouterr().err


def test_budget_that_is_too_small(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["abba", program, program, f"--state={tmp_path / 's'}", "--budget=0.05s"]) == 2
    error = capsys.readouterr().err
    assert "--budget=" in error and "--filter" in error


def test_changed_machine(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _abba(program, f"{program} --device=other", tmp_path / "state") == 2
    assert "machine changed" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "/no/such/program", "'open quote", "ls --journal=x", "ls --benchmark_out=x"])
def test_what_is_no_command(text: str) -> None:
    with pytest.raises(UnusableInputError):
        command.parse(text)


def test_filter_matches_the_cases_alone() -> None:
    text = command.filter_of(["a/n:1.5", "b(c)/n:1"])
    assert text == r"--benchmark_filter=^(a/n:1\.5|b\(c\)/n:1)/manual_time$"


@pytest.mark.parametrize(("text", "expected"), [("90", 90), ("90s", 90), ("5min", 300), ("1.5h", 5400), ("2 m", 120)])
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "5 years", "-5s", "0s", "nan", "1e3", "9999h"])
def test_no_durations(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        seconds(text)


def test_at_least_ten_pairs() -> None:
    assert sequential.MIN_PAIRS >= 10
    assert not sequential.is_due(0, 1.0, 9)
    assert sequential.is_due(0, 0.25, 10)
    assert not sequential.is_due(4, 1.0, 100)


def test_a_metric_of_the_programs_own(tmp_path: Path) -> None:
    program = fake_roofbench.script(tmp_path / "bin", "a/n:1:1.0", tmp_path / "runs", flags="--described")
    assert _abba(program, program, tmp_path / "one", "--metric=roof", "--flag=--noise=0.002") == 0
    assert _abba(program, program, tmp_path / "two", "--metric=nonsense") == 2


def test_a_match_sees_the_default_that_names_leave_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = "gelu/dtype:bf16/elements:4:1.0,gelu/impl:native/dtype:bf16/elements:4:0.7,copy/bytes:4:1"
    program = fake_roofbench.script(tmp_path / "bin", times, tmp_path / "runs")
    flags = [f"--state={tmp_path / 'state'}", "--budget=60s", "--pairs=12", "--flag=--noise=0.002"]
    assert main(["abba", f"{program} --described", "--match=impl:eager=impl:native", *flags]) == 0
    out = capsys.readouterr().out
    assert any(line.startswith("FASTER") and "gelu/dtype:bf16/elements:4 " in line for line in out.splitlines())
    assert "1 case: 1 FASTER" in out
