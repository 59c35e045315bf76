# SPDX-License-Identifier: Apache-2.0
"""A B B A on a program of known speed."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import builders
import fake_roofbench
import pytest
from reports import Report
from roofreport.compare import abba, axes, command
from roofreport.errors import UnusableInputError
from roofreport.stats import sequential
from roofreport.verbs.common import seconds

UNJUDGED = 125  # what git bisect run takes for a commit that it has to pass over

_CASES = "a/n:1:1.0,b/n:1:5.0,c/n:1:0.2"
_QUIET = "--flag=--noise=0.002"
_THEIRS_AND_OURS = (
    "f/impl:x/n:1:1.0,f/impl:y/n:1:0.7,f/impl:x/n:2:5.0,f/impl:y/n:2:5.0,f/impl:x/n:3:1,f/impl:y/n:4:1,g/n:1:1"
)


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Its counter makes each run differ."""
    return _program(tmp_path)


def _program(folder: Path, cases: str = _CASES, flags: str = "") -> str:
    return fake_roofbench.script(folder / "bin", cases, folder / "runs", flags=flags)


def _abba(report: Report, base: str, new: str, state: Path, *more: str, status: int = 0) -> str:
    return report("abba", base, new, f"--state={state}", "--budget=60min", "--pairs=16", *more, status=status)


def _verdicts(out: str) -> dict[str, str]:
    rows = [line.split() for line in out.partition("\n\n")[0].splitlines()[2:]]
    return {row[1]: row[0] for row in rows if row[0].isalpha()}  # below them are their notes


def test_processes_take_turns(program: str, tmp_path: Path, report: Report) -> None:
    assert "3 cases: 3 SAME" in _abba(report, program, program, tmp_path / "state", _QUIET)
    assert "pair 10" in report.error
    assert "left" in report.error
    files = sorted((tmp_path / "state").glob("0*-[AB].json"), key=lambda path: path.stat().st_mtime_ns)
    assert len(files) >= 20
    assert "".join(path.stem[-1] for path in files).startswith("ABBAABBAABBA")


@pytest.mark.parametrize(
    ("base", "new", "status", "verdicts", "said"),
    [
        ("", "--slow=b/n:1", 1, "SAME SLOWER SAME", "+3"),
        ("", "--factor=0.8", 0, "FASTER FASTER FASTER", "3 FASTER (time"),
        ("", "--fail=a/n:1", 1, "FAILED SAME SAME", "new: failed"),
        ("--skip=a/n:1", "", UNJUDGED, "MISSING SAME SAME", "base: skipped"),
        ("", "--crash", 1, "FAILED FAILED FAILED", "SIGSEGV"),
        ("", "--metric=ttft_ms", UNJUDGED, "MISSING MISSING MISSING", "no ttft_ms"),
    ],
)
def test_verdicts(
    base: str, new: str, status: int, verdicts: str, said: str, program: str, tmp_path: Path,
    report: Report,
) -> None:  # fmt: skip
    more = [new] if new.startswith("--metric") else []
    flags = "" if more else new
    sides = f"{program} {base}", f"{program} {flags}"
    out = _abba(report, *sides, tmp_path / "state", _QUIET, *more, status=status)
    assert _verdicts(out) == dict(zip(("a/n:1", "b/n:1", "c/n:1"), verdicts.split(), strict=True))
    assert said in out


def test_shares_of_the_roof_decide_where_memory_changes(program: str, tmp_path: Path, report: Report) -> None:
    unsteady = f"{program} --memory=0.4"
    both = unsteady, f"{unsteady} --factor=0.9"
    assert "3 AMBIGUOUS (time" in _abba(report, *both, tmp_path / "time", status=UNJUDGED)
    out = _abba(report, *both, tmp_path / "roof", "--metric=roof")
    assert "3 FASTER (roof" in out
    assert "+11." in out
    slower = _abba(report, unsteady, f"{unsteady} --factor=1.1", tmp_path / "slower", "--metric=roof", status=1)
    assert "3 SLOWER (roof" in slower


def test_resumes(program: str, tmp_path: Path, report: Report) -> None:
    state = tmp_path / "state"
    sides = program, f"{program} --factor=1.3"
    assert "3 SLOWER" in _abba(report, *sides, state, status=1)
    runs = int((tmp_path / "runs").read_text())
    # As if the comparison had been stopped after its fifth pair, within the sixth.
    stored = json.loads((state / "state.json").read_text())
    dropped = stored["pairs"][5:]
    stored["pairs"] = stored["pairs"][:5]
    stored["seconds"] -= sum(pair["seconds"] for pair in dropped)
    (state / "state.json").write_text(json.dumps(stored))
    out = _abba(report, *sides, state, status=1)
    assert "resumed after 5 pairs" in report.error
    assert "3 SLOWER" in out
    assert 10 <= int((tmp_path / "runs").read_text()) - runs <= 22
    # A finished one gives its verdict again without a run.
    runs = int((tmp_path / "runs").read_text())
    assert _abba(report, *sides, state, status=1) == out
    assert int((tmp_path / "runs").read_text()) == runs


def test_state_of_another_comparison_is_refused(program: str, tmp_path: Path, report: Report) -> None:
    state = tmp_path / "state"
    _abba(report, program, program, state, "--filter=a/")
    whole = (state / "state.json").read_text()
    other = (program, f"{program} --factor=2", state, "--filter=a/")
    _abba(report, *other, status=UNJUDGED)
    assert "another comparison" in report.error
    for key, value in (("max_time", "long"), ("closed", {"a/n:1": ["ODD", ""]}), ("cases", []), ("more", 1)):
        (state / "state.json").write_text(json.dumps(json.loads(whole) | {key: value}))
        _abba(report, *other, status=UNJUDGED)
        assert "is damaged" in report.error
    shutil.rmtree(state)
    _abba(report, *other, status=1)


@pytest.mark.parametrize(
    ("times", "flags", "status", "verdicts"),
    [
        (
            _THEIRS_AND_OURS,
            "--match=impl:x=impl:y",
            UNJUDGED,
            {"f/n:1": "FASTER", "f/n:2": "SAME", "f/n:3": "MISSING", "f/n:4": "NEW"},
        ),
        (_THEIRS_AND_OURS, "--match=impl:y=impl:x --filter=n:[12]", 1, {"f/n:1": "SLOWER", "f/n:2": "SAME"}),
        (
            _THEIRS_AND_OURS,
            "--match=impl:x=impl:y --filter=n:[12] --flag=--fail=f/impl:y/n:1",
            1,
            {"f/n:1": "FAILED", "f/n:2": "SAME"},
        ),
        (
            _THEIRS_AND_OURS,
            "--match=impl:x=impl:y --filter=n:[12] --flag=--skip=f/impl:x/n:1",
            UNJUDGED,
            {"f/n:1": "MISSING", "f/n:2": "SAME"},
        ),
        (
            "f/impl:x/type:a/n:1:1.0,f/impl:y/type:b/n:1:0.7,f/impl:y/type:a/n:1:0.1,f/impl:x/type:b/n:2:1",
            "--match=impl:x/type:a=impl:y/type:b",
            0,
            {"f/n:1": "FASTER"},
        ),
        # The program's contract has the default that names leave out.
        (
            "gelu/dtype:bf16/elements:4:1.0,gelu/impl:native/dtype:bf16/elements:4:0.7,copy/bytes:4:1",
            "--match=impl:eager=impl:native --flag=--described",
            0,
            {"gelu/dtype:bf16/elements:4": "FASTER"},
        ),
    ],
)
def test_a_match(times: str, flags: str, status: int, verdicts: dict[str, str], tmp_path: Path, report: Report) -> None:
    program = _program(tmp_path, times)
    more = [f"--state={tmp_path / 'state'}", "--budget=60min", "--pairs=12", _QUIET, *flags.split()]
    out = report("abba", program, *more, status=status)
    assert _verdicts(out) == verdicts
    base, _, new = more[4].removeprefix("--match=").partition("=")
    assert f"base {base}, new {new}" in out


@pytest.mark.parametrize(
    "text",
    [
        *("", "impl:x", "impl:x=impl:x", "impl:x=n:1", "impl:=impl:y", "impl:x=impl:y=impl:z"),
        *("impl:x/n:1=impl:y", "impl:x/n:1=impl:x/n:1", "impl:x/=impl:y/", "impl:x/impl:y=impl:z/impl:z"),
    ],
)
def test_an_invalid_match(text: str) -> None:
    with pytest.raises(UnusableInputError):
        axes.parse_match(text)


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("exit 1", "exit status 1: two / three / four ("),  # as a script that raises
        ("exit 0", "exit status 0: two / three / four ("),
        ("exit 3", "exit status 3: two / three / four"),
        ("kill -9 $$", "ended by SIGKILL: two / three / four"),
    ],
)
@pytest.mark.parametrize("side", ["A", "B"])
def test_a_process_that_ends_without_a_result_is_named_with_its_last_words(
    side: str, end: str, how: str, program: str, tmp_path: Path, report: Report
) -> None:
    words = "printf 'one\\ntwo\\n\\nthree\\n  four\\n' >&2"
    ends = f'case "$*" in *0002-{side}.json*) {words}; {end} ;; esac'
    other = fake_roofbench.script(tmp_path / "other", _CASES, tmp_path / "runs", before=ends)
    said = f"process {side} of pair 2: {how}"
    if side == "A":
        state = f"--state={tmp_path / 'state'}"
        assert said in report.refused("abba", other, program, state, "--budget=60min", status=UNJUDGED)
    else:
        out = _abba(report, program, other, tmp_path / "state", _QUIET, status=1)
        assert f"new: {said}" in out and "3 FAILED" in out


def test_a_crash_of_some_cases_leaves_the_others(
    tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each case has processes of its own where many do not fit into the seconds of one."""
    monkeypatch.setattr(abba, "_PROCESS_SECONDS", 1e-9)
    (tmp_path / "new").mkdir()
    base, new = _program(tmp_path), _program(tmp_path / "new", flags="--crash_with=b/n:1")
    for _ in range(2):  # the second time from what the first one kept
        out = _abba(report, base, new, tmp_path / "state", _QUIET, status=1)
        assert _verdicts(out) == {"a/n:1": "SAME", "b/n:1": "FAILED", "c/n:1": "SAME"} and "SIGSEGV" in out
    files = sorted((tmp_path / "state").glob("0001-*.json"), key=lambda path: path.stat().st_mtime_ns)
    assert [path.stem[5:] for path in files if "comparable" not in path.name] == ["A", "B", "A1", "A2", "B2"]


@pytest.mark.parametrize("once", ["--fail=a/n:1", "--skip=a/n:1", "--crash"])
def test_a_failure_that_happens_once_is_run_again(program: str, tmp_path: Path, report: Report, once: str) -> None:
    sides = f"{program} {once} --in_run=7", program
    out = _abba(report, *sides, tmp_path / "state", _QUIET)
    assert "3 SAME" in out
    # A comparison that is over gives the same verdicts from its files.
    assert _abba(report, *sides, tmp_path / "state", _QUIET) == out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("BIN|--crash BIN", "SIGSEGV"),
        ("BIN BIN|--device=other", "machine changed"),
        ("BIN BIN --budget=0.05s", "or fewer cases"),
        ("BIN BIN --metric=samples", "is neither better nor worse"),
        ("BIN BIN|--described --metric=nonsense", "is not in the table of metrics"),
        ("BIN", "--match"),
        ("BIN --match=impl:x=impl:y", "no cases that differ in impl:x=impl:y alone"),
    ],
)
def test_refusals(arguments: str, said: str, program: str, tmp_path: Path, report: Report) -> None:
    given = [word.replace("BIN", program).replace("|", " ") for word in arguments.split()]
    assert said in report.refused("abba", *given, f"--state={tmp_path / 'state'}", status=UNJUDGED)


def test_a_metric_of_the_programs_own(tmp_path: Path, report: Report) -> None:
    program = _program(tmp_path, "a/n:1:1.0", "--described")
    _abba(report, program, program, tmp_path / "one", "--metric=roof", _QUIET)


@pytest.mark.parametrize("text", ["", "/no/such/program", "'open quote", "ls --journal=x", "ls --benchmark_out=x"])
def test_an_invalid_command(text: str) -> None:
    with pytest.raises(UnusableInputError):
        command.parse(text)


def test_filter_matches_the_cases_alone() -> None:
    text = command.filter_of(["a/n:1.5", "b(c)/n:1"])
    assert text == r"--benchmark_filter=^(a/n:1\.5|b\(c\)/n:1)/manual_time$"


@pytest.mark.parametrize(("text", "expected"), [("90", 90), ("90s", 90), ("5min", 300), ("1.5h", 5400), ("2 m", 120)])
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "5 years", "-5s", "0s", "nan", "1e3", "9999h"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        seconds(text)


def test_at_least_ten_pairs() -> None:
    assert sequential.MIN_PAIRS >= 10
    assert not sequential.is_due(0, 1.0, 9)
    assert sequential.is_due(0, 0.25, 10)
    assert not sequential.is_due(4, 1.0, 100)


_WAITS = """#!/bin/sh
case "$*" in
  *--benchmark_list_tests*) echo a/n:1/manual_time ;;
  *--describe=json*) exit 2 ;;
  *)
    echo $$ >{fifo}
    exec sleep 600
    ;;
esac
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_program_too(number: signal.Signals, tmp_path: Path) -> None:
    fifo, waits = tmp_path / "fifo", tmp_path / "waits"
    os.mkfifo(fifo)
    waits.write_text(_WAITS.format(fifo=fifo))
    waits.chmod(0o755)
    arguments: list[str | Path] = [
        builders.ROOT / "tools" / "report",
        "abba",
        waits,
        waits,
        f"--state={tmp_path / 'state'}",
    ]
    process = subprocess.Popen(
        arguments,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup ignores it
    )
    child = int(fifo.read_text())
    process.send_signal(number)
    _, error = process.communicate()
    assert process.returncode == 128 + number
    assert error.endswith("interrupted; repeat the command to continue\n")
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
