# SPDX-License-Identifier: Apache-2.0
"""Verdicts and exit statuses of compare, and the command of compare.py that it names."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import builders
import numpy as np
import pytest
from reports import Report
from roofreport.cli import main
from roofreport.compare import compare_py, comparison, machine_noise
from roofreport.compare.machine_noise import NOTHING, Known
from roofreport.io import case_name
from roofreport.io.contract import TIME
from roofreport.io.load import load
from roofreport.io.result import Case, Result, State
from roofreport.stats.verdict import Judgment, Verdict


def _judge(tmp_path: Path, new: list[dict[str, Any]], base: list[dict[str, Any]] | None = None) -> list[Judgment]:
    a = builders.write_json(tmp_path / "a.json", base)
    b = builders.write_json(tmp_path / "b.json", new)
    return comparison.compare([load(a)], [load(b)])


def _verdicts(judgments: list[Judgment]) -> dict[str, Verdict]:
    return {judgment.name: judgment.verdict for judgment in judgments}


_PEAK = [builders.row("a/n:1", 1.0, peak_mem=1e6)], [builders.row("a/n:1", 1.0, peak_mem=1.02e6)]
_EDITED = [row | {"real_time": 5 * row["real_time"]} for row in builders.scaled(1.0)]


@pytest.mark.parametrize(
    ("base", "new", "flags", "status", "said"),
    [
        (None, None, [], 0, ["3 cases: 3 SAME"]),
        (None, builders.scaled(5), [], 1, ["3 SLOWER", "+400.0 %"]),
        (builders.scaled(5), None, [], 0, ["3 FASTER"]),
        (None, builders.scaled(2), [], 0, ["3 AMBIGUOUS", "+100.0 %", "1 and 1 processes are few", "--noise FILE"]),
        (None, _EDITED, [], 1, ["3 SLOWER"]),  # times decide, not their counters
        (None, builders.scaled(1 / 5), ["--metric=FLOP/s"], 0, ["2 FASTER"]),
        (*_PEAK, ["--metric=peak_mem"], 1, ["1 SLOWER", "+2.0 %"]),
        (*reversed(_PEAK), ["--metric=peak_mem"], 0, ["1 FASTER"]),
        (None, None, ["--metric=samples"], 2, []),
        (None, None, ["--metric=nonsense"], 2, []),
    ],
)
def test_two_files(
    base: list[dict[str, Any]] | None,
    new: list[dict[str, Any]] | None,
    flags: list[str],
    status: int,
    said: list[str],
    tmp_path: Path,
    report: Report,
) -> None:
    files = builders.write_json(tmp_path / "a.json", base), builders.write_json(tmp_path / "b.json", new)
    out = report("compare", *files, *flags, status=status)
    assert all(text in out for text in said)


def test_small_changes_of_one_process_are_not_called(tmp_path: Path) -> None:
    assert set(_verdicts(_judge(tmp_path, builders.scaled(1.08))).values()) == {Verdict.AMBIGUOUS}
    assert set(_verdicts(_judge(tmp_path, builders.scaled(1.005))).values()) == {Verdict.SAME}


def test_a_slower_machine_does_not_make_a_slower_case(tmp_path: Path) -> None:
    """The time grew, but so did the time allowed by the roof next to it."""
    rows = [row | {"roof": 0.5} for row in builders.scaled(6)]
    judgments = _judge(tmp_path, rows)
    assert set(_verdicts(judgments).values()) == {Verdict.AMBIGUOUS}
    assert "roof" in judgments[0].note


def test_missing_new_failed(tmp_path: Path, report: Report) -> None:
    base = [builders.row("a/n:1", 1.0), builders.row("b/n:1", 1.0), builders.row("c/n:1", 1.0)]
    base += [builders.error_row("d/n:1", "skipped: no"), builders.error_row("f/n:1", "skipped: no")]
    base += [builders.error_row("g/n:1", "interrupted: before it ran")]
    new = [builders.row("a/n:1", 1.0), builders.error_row("b/n:1", "failed: wrong result")]
    new += [builders.row("d/n:1", 1.0), builders.row("e/n:1", 1.0), builders.error_row("f/n:1", "skipped: no")]
    new += [builders.row("g/n:1", 1.0)]
    assert _verdicts(_judge(tmp_path, new, base)) == {
        "a/n:1": Verdict.SAME,
        "b/n:1": Verdict.FAILED,
        "c/n:1": Verdict.MISSING,
        "d/n:1": Verdict.MISSING,
        "e/n:1": Verdict.NEW,
        "f/n:1": Verdict.MISSING,
        "g/n:1": Verdict.MISSING,
    }
    out = report("compare", tmp_path / "a.json", tmp_path / "b.json", status=1)
    for note in ("failed: wrong result", "base: skipped: no", "base: interrupted: before it ran"):
        assert note in out
    report("compare", tmp_path / "b.json", tmp_path / "a.json")


@pytest.mark.parametrize("form", ["terminal", "json"])
@pytest.mark.parametrize("rows", [[], [builders.row("b/n:1", 1.0)]])
def test_files_without_a_common_case_are_refused(
    rows: list[dict[str, Any]], form: str, tmp_path: Path, report: Report
) -> None:
    files = [
        builders.write_json(tmp_path / "a.json", [builders.row("a/n:1", 1.0)]),
        builders.write_json(tmp_path / "b.json", rows),
    ]
    assert report("compare", *files, f"--format={form}", status=2) == "", "nor a command"
    assert f"{files[0]} and {files[1]} have no case in common; " in report.error and "table FILE" in report.error


def _scaled(factor: float, **changes: Any) -> list[dict[str, Any]]:
    """Rows with changed counters; those that are None are left out."""
    rows = [row | changes for row in builders.scaled(factor)]
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"label": "interrupted"}, "interrupted"),
        ({"samples": 1.0, "ci": None}, "1 sample"),
        ({"noisy": 1.0, "ci": 1.1}, "noisy (ci >100 %)"),
        ({"disturbed": 1.0}, "disturbed"),
        ({"noisy": 1.0}, "noisy"),
        ({"throttled": 1.0}, "throttled"),
    ],
)
@pytest.mark.parametrize("factor", [1.004, 1.8, 1 / 1.8])
def test_rows_that_distrust_themselves_get_no_verdict(
    changes: dict[str, Any], note: str, factor: float, tmp_path: Path
) -> None:
    for new, base, side in (
        (_scaled(factor, **changes), None, "new"),
        (_scaled(factor), _scaled(1.0, **changes), "base"),
    ):
        judgments = _judge(tmp_path, new, base)
        assert set(_verdicts(judgments).values()) == {Verdict.AMBIGUOUS}
        assert {one.note for one in judgments} == {f"{side}: {note}"}
        assert judgments[0].effect == pytest.approx(factor - 1), "the figures are shown"
        assert judgments[0].interval() == "", "it would claim to be known"


def test_a_minority_of_noisy_or_interrupted_repetitions_does_not_prevent_a_verdict(tmp_path: Path) -> None:
    rows = [*_repeated(58.0, 58.1, 57.9), builders.row(builders.MATMUL, 90.0, 3, label="interrupted", samples=1.0)]
    rows[1]["noisy"] = 1.0
    (judged,) = _judge(tmp_path, rows, _repeated(10.0))
    assert judged.verdict is Verdict.SLOWER
    assert judged.new == pytest.approx(58e-3)
    rows[0]["noisy"] = 1.0
    (judged,) = _judge(tmp_path, rows, _repeated(10.0))
    assert judged.verdict is Verdict.AMBIGUOUS


def test_few_samples_of_each_repetition_suffice_together(tmp_path: Path) -> None:
    """Steps of many seconds: three samples in each of three repetitions."""
    rows = [row | {"samples": 3.0} for row in _repeated(58.0, 58.1, 57.9)]
    (judged,) = _judge(tmp_path, rows, _repeated(10.0))
    assert judged.verdict is Verdict.SLOWER


def test_figures_that_do_not_follow_the_clock_are_judged_in_noisy_rows(tmp_path: Path) -> None:
    base, new = ([row | {"noisy": 1.0, "samples": 1.0} for row in side] for side in _PEAK)
    a, b = builders.write_json(tmp_path / "a.json", base), builders.write_json(tmp_path / "b.json", new)
    assert main(["compare", str(a), str(b), "--metric=peak_mem"]) == 1


def _processes(folder: Path, side: str, factor: float, count: int, deviation: float, minute: int = 0) -> None:
    random = np.random.default_rng(len(side) + count)
    for i in range(count):
        rows = [
            builders.row(name, time * factor * float(np.exp(random.normal(0, deviation))))
            for name, time in builders.TIMES.items()
        ]
        second = f"2026-01-01T{minute:02d}:{i:02d}:{0 if side == 'a' else 30:02d}+00:00"
        builders.write_json(folder / f"{side}{i}.json", rows, date=second)


def test_more_processes_call_smaller_changes(tmp_path: Path, report: Report) -> None:
    _processes(tmp_path, "a", 1.0, 16, 0.01)
    _processes(tmp_path, "bb", 1.06, 16, 0.01)
    out = report("compare", "--base", tmp_path / "a*.json", "--new", tmp_path / "bb*.json", status=1)
    assert "3 SLOWER" in out
    assert "16 and 16 processes" in out


def test_blocks_are_trusted_less_than_turns(tmp_path: Path) -> None:
    _processes(tmp_path, "a", 1.0, 16, 0.01)
    _processes(tmp_path, "bb", 1.06, 16, 0.01, minute=5)
    base, new = ([load(path) for path in sorted(tmp_path.glob(f"{side}*.json"))] for side in ("a", "bb"))
    assert not comparison.in_turns(base, new)
    assert set(_verdicts(comparison.compare(base, new)).values()) == {Verdict.AMBIGUOUS}


def _process(time: float, date: str) -> Result:
    case = Case(builders.COPY, 0, State.MEASURED, seconds=1e-3 * time)
    return Result(Path("process"), {}, (case,), date=date)


def _minute(number: int) -> str:
    return f"2026-01-01T00:{number:02d}:00+00:00"


def _compared(base: Sequence[float], new: Sequence[float], known: Known = NOTHING) -> Judgment:
    """The base's processes, and then the new ones."""
    processes = [_process(time, _minute(number)) for number, time in enumerate([*base, *new])]
    (judged,) = comparison.compare(processes[: len(base)], processes[len(base) :], known=known)
    return judged


def test_the_processes_of_one_program_in_two_states_are_not_different() -> None:
    """Every division of six of them, and every pair."""
    times = [104e-3, 105e-3, 106e-3, 199e-3, 200e-3, 201e-3]
    for chosen in combinations(range(6), 3):
        base = [times[i] for i in chosen]
        new = [times[i] for i in range(6) if i not in chosen]
        judged = _compared(base, new)
        assert judged.verdict is Verdict.AMBIGUOUS and judged.interval() == ""
        is_apart = chosen in ((0, 1, 2), (3, 4, 5))
        assert judged.note.startswith(
            "3 and 3 processes are few" if is_apart else "processes split: 3 and 3 of 6, 1.90x"
        )
    assert _compared([104e-3], [200e-3]).verdict is Verdict.AMBIGUOUS


def _placed(base: Sequence[tuple[float, float]], new: Sequence[tuple[float, float]]) -> Judgment:
    """Processes by time and by what a line takes from thread to thread."""
    processes = []
    for number, (time, apart) in enumerate([*base, *new]):
        case = Case(builders.COPY, 0, State.MEASURED, seconds=1e-3 * time, counters={"handover_ns": apart})
        processes.append(Result(Path("process"), {}, (case,), date=_minute(number)))
    (judged,) = comparison.compare(processes[: len(base)], processes[len(base) :])
    return judged


def test_processes_are_compared_with_those_whose_threads_were_as_near() -> None:
    near, far = [(time, 60.0) for time in _QUIET], [(1.4 * time, 270.0) for time in _QUIET]
    judged = _placed([*near, *far[:2]], [*far[:3], *near])
    assert judged.verdict is Verdict.SAME and judged.effect == 0
    assert judged.note.startswith("6 of 8 and 6 of 9 processes, whose threads were 60 ns apart")
    slower = [(5 * time, apart) for time, apart in near]
    assert _placed([*near, *far[:2]], [*far[:3], *slower]).verdict is Verdict.SLOWER
    elsewhere = _placed(near, far)
    assert elsewhere.verdict is Verdict.AMBIGUOUS
    assert elsewhere.note.startswith("threads 60 ns apart in base, 270 ns in new")
    unknown = _placed([*near[:5], (1.0, 0.0)], far)
    assert "apart" not in unknown.note


def test_sides_that_overlap_are_ambiguous() -> None:
    judged = _compared([1.0, 1.02, 1.06], [1.05, 1.08, 1.09])
    assert (judged.verdict, judged.note) == (Verdict.AMBIGUOUS, "their processes overlap")


_QUIET = [1.0, 1.004, 0.996, 1.003, 0.998, 1.001]


def _earlier(sessions: int) -> list[tuple[float, str]]:
    """Times and dates of processes like those of _QUIET: some of each day."""
    return [
        (time * (1 + 0.002 * (day % 3)), f"2025-12-{day + 1:02d}T00:{process:02d}:00+00:00")
        for day in range(sessions)
        for process, time in enumerate(_QUIET[:3])
    ]


def _known(sessions: int) -> Known:
    return machine_noise.of_results([_process(*one) for one in _earlier(sessions)], TIME)


def test_a_quiet_machine_that_is_known_hears_more() -> None:
    slower = [1.04 * time for time in _QUIET]
    assert _compared(_QUIET[:3], slower[:3]).verdict is Verdict.AMBIGUOUS
    judged = _compared(_QUIET, slower)
    assert judged.note == "the sides were not taken in turns: they may be two states of one program"
    assert judged.interval(), "the ranks of six processes have one"
    assert _compared(_QUIET[:3], slower[:3], _known(12)).verdict is Verdict.SLOWER
    assert _compared(_QUIET, slower, _known(12)).verdict is Verdict.SLOWER
    assert _compared(_QUIET[:3], slower[:3], _known(2)).verdict is Verdict.AMBIGUOUS, "too few days"
    assert _compared(_QUIET[:1], slower[:1], _known(12)).verdict is Verdict.AMBIGUOUS, "too few processes"


def test_a_trend_through_both_sides_is_no_change() -> None:
    rising = [1.01**process for process in range(12)]
    judged = _compared(rising[:6], rising[6:], _known(12))
    assert (judged.verdict, judged.note) == (Verdict.AMBIGUOUS, "the processes drift as much")


def test_the_source_of_the_noise_is_said(tmp_path: Path, report: Report) -> None:
    def written(kind: str, processes: Sequence[tuple[float, str]]) -> list[Path]:
        return [
            builders.write_json(tmp_path / f"{kind}{i:02d}.json", [builders.row(builders.COPY, time)], date=date)
            for i, (time, date) in enumerate(processes)
        ]

    earlier = written("earlier", _earlier(10))
    base = written("base", [(time, _minute(i)) for i, time in enumerate(_QUIET[:3])])
    new = written("new", [(1.04 * time, _minute(3 + i)) for i, time in enumerate(_QUIET[:3])])
    sides = ("--base", *base, "--new", *new)
    assert "noise: that of another machine; several processes" in report("compare", *sides)
    out = report("compare", *sides, "--noise", *earlier, status=1)
    assert "noise: of 1 of 1 case from 30 processes of --noise" in out
    store = f"--store={tmp_path / 'history.db'}"
    report("history", "add", *earlier, *base, store)
    assert "noise: of 1 of 1 case from its history" in report("compare", *sides, store, status=1)
    other = builders.write_json(tmp_path / "other.json", device="Other CPU")
    assert "--noise is of different hardware" in report.refused("compare", *sides, "--noise", other)


def test_other_hardware_needs_a_flag(tmp_path: Path, report: Report) -> None:
    base = builders.write_json(tmp_path / "a.json")
    new = builders.write_json(tmp_path / "b.json", device="Other CPU", threads="1")
    error = report.refused("compare", base, new)
    assert "Test CPU / Other CPU" in error and "--cross-hardware" in error
    report("compare", base, new, "--cross-hardware")
    assert "Other CPU" in report.error and "threads: 2 / 1" in report.error


@pytest.mark.parametrize("arguments", [[], ["a"], ["a", "b", "c"], ["a", "b", "--new", "c"], ["--base", "a"]])
def test_wrong_number_of_files(arguments: list[str], report: Report) -> None:
    report.refused("compare", *arguments)


needs_compare_py = pytest.mark.skipif(
    compare_py.find() is None, reason="Google Benchmark's compare.py is not installed"
)


@needs_compare_py
@pytest.mark.parametrize("kind", ["json", "journal", "several", "with skipped", "with skipped, without a suffix"])
def test_the_named_command_works(kind: str, tmp_path: Path, report: Report) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    skipped = [builders.error_row("z/n:1", "skipped: no")] if kind.startswith("with skipped") else []
    sides: list[list[Path]] = []
    for name, factor in (("a", 1.0), ("b", 5.0)):
        paths = [folder / f"{name}{i}" for i in range(3 if kind == "several" else 1)]
        for i, path in enumerate(paths):
            rows = builders.scaled(factor * (1 + i / 100))
            if kind == "journal":
                lines = [builders.line(case, time * factor) for case, time in builders.TIMES.items()]
                path.write_text(builders.journal_text(builders.header(), *lines))
            else:
                builders.write_json(path, [*rows, *skipped])
            if kind.endswith("without a suffix"):
                path.write_text(path.read_text().replace(case_name.MANUAL_TIME, ""))
        sides.append(paths)
    command = report.named_command("--base", *sides[0], "--new", *sides[1], status=1)
    dump = tmp_path / "dump.json"
    done = subprocess.run([*command[:2], f"--dump_to_json={dump}", *command[2:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    changes = {
        entry["name"]: entry["measurements"]
        for entry in json.loads(dump.read_text())
        if entry["name"] != "OVERALL_GEOMEAN"
    }
    assert set(changes) == set(builders.TIMES)
    for name, measurements in changes.items():
        assert len(measurements) == (3 if kind == "several" else 1)
        assert measurements[0]["time"] == pytest.approx(4.0)
        assert measurements[0]["real_time"] == pytest.approx(1e3 * builders.TIMES[name]), "µs"


def _repeated(*milliseconds: float) -> list[dict[str, Any]]:
    return [builders.row(builders.MATMUL, time, repetition) for repetition, time in enumerate(milliseconds)]


def test_one_process_in_the_other_of_two_states_is_not_slower(tmp_path: Path) -> None:
    (once,) = _judge(tmp_path, _repeated(0.284), _repeated(0.202))
    assert once.verdict is Verdict.AMBIGUOUS
    assert once.note == "1 and 1 processes are few: they may be two states of one program"
    repeated = [0.202, 0.282, 0.284, 0.285, 0.287, 0.283]
    (judged,) = _judge(tmp_path, _repeated(*repeated), _repeated(0.202))
    assert judged.effect == pytest.approx(0.4, abs=0.02)
    assert judged.verdict is Verdict.AMBIGUOUS
    assert judged.note.endswith("; new repetitions split: 1 near 202 µs, 5 near 284 µs")
    (swapped,) = _judge(tmp_path, _repeated(0.202), _repeated(*repeated))
    assert swapped.verdict is Verdict.AMBIGUOUS
    assert "base repetitions split" in swapped.note


def test_for_a_pull_request_and_for_a_program(tmp_path: Path, report: Report) -> None:
    base = builders.write_json(tmp_path / "a.json")
    new = builders.write_json(tmp_path / "b.json", [*builders.scaled(5)[:2], builders.error_row(builders.COPY, "x")])
    out = report("compare", base, new, "--format=json", status=1)
    document = json.loads(out)
    assert (document["metric"], document["unit"]) == ("time", "s")
    first = document["cases"][0]
    assert (first["name"], first["verdict"]) == (builders.MATMUL, "SLOWER")
    assert first["new"] == pytest.approx(50e-3)
    assert first["change"] == pytest.approx(4.0)
    assert first["low"] is None, "one process a side has no interval"
    assert document["cases"][2]["change"] is None, "JSON has no nan"
    out = report("compare", base, new, "--format=markdown", status=1)
    assert out.startswith("| verdict | case |")
    assert "compare.py" not in out
