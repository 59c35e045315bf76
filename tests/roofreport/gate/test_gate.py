# SPDX-License-Identifier: Apache-2.0
"""tools/report gate and accept: verdicts on nightly runs with injected faults, and on quiet ones."""

from __future__ import annotations

import json
import math
import random
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import builders
import fake_roofbench
import histories
import pytest
from builders import COPY, GEMV, MATMUL
from reports import Report
from roofreport.compare import command
from roofreport.errors import UnusableInputError
from roofreport.gate import nightly_runs, second_run
from roofreport.gate.second_run import stays
from roofreport.gate.series_state import NOT_AT_ALL, Fence, SeriesState
from roofreport.gate.verdicts import judge
from roofreport.history.store import Store, open_store
from roofreport.io.contract import TIME, packaged
from roofreport.io.result import Case, State
from roofreport.site import overview
from roofreport.site.nights import by_night

NIGHTS = 30


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return histories.add(tmp_path / "history.db", range(NIGHTS), histories.rows())


def _gate(report: Report, store: Path, *more: str | Path, status: int = 0) -> str:
    return report("gate", f"--store={store}", *more, status=status)


def _add(store: Path, night: int, **factors: float) -> None:
    names = {"gemv": GEMV, "matmul": MATMUL, "copy": COPY}
    histories.add(store, [night], histories.rows({names[key]: factor for key, factor in factors.items()}))


def _found(store: Path) -> dict[str, str]:
    with open_store(str(store)) as opened:
        return {finding.series.case: finding.kind for finding in judge(opened)}


@pytest.mark.parametrize(
    ("factor", "status", "found"), [(1.0, 0, {}), (1.1, 1, {GEMV: "slower"}), (0.8, 0, {GEMV: "faster"})]
)
def test_one_nightly_run(store: Path, factor: float, status: int, found: dict[str, str], report: Report) -> None:
    _add(store, NIGHTS, gemv=factor)
    assert _found(store) == found
    out = _gate(report, store, status=status)
    assert ("3 cases, time: nothing to say" in out) == (not found)
    for case, kind in found.items():
        assert any(line.split()[:2] == [kind.upper(), case] for line in out.splitlines())
        assert f"1 {kind.upper()}" in out


@pytest.mark.parametrize("flag", ["--pairs=3", "--flag=--check=off"])
def test_flags_of_second_runs_need_a_program(flag: str, store: Path, report: Report) -> None:
    assert "name the program with --binary" in report.refused("gate", f"--store={store}", flag)


def test_files_of_one_run_are_one_process_of_a_night(store: Path, tmp_path: Path, report: Report) -> None:
    """As the journal of a run and its JSON are."""
    night = histories.result(tmp_path / "night.json", NIGHTS, histories.rows())
    again = tmp_path / "again.json"
    again.write_text(night.read_text())
    assert _gate(report, store, night, again) == _gate(report, store, night)
    assert report("machine", night, again) == report("machine", night)


def test_a_metric_that_no_night_has_is_refused(store: Path, tmp_path: Path, report: Report) -> None:
    """A job that judges nothing has not succeeded, and a page without series replaces none."""
    said = "--metric=algbw: no run has it; there are time, "
    assert said in report.refused("gate", f"--store={store}", "--metric=algbw")
    site = tmp_path / "site"
    report("site", f"--store={store}", f"--out={site}")
    before = sorted(site.rglob("*"))
    assert said in report.refused("site", f"--store={store}", f"--out={site}", "--metric=time", "--metric=algbw")
    assert sorted(site.rglob("*")) == before


def test_a_drift_is_an_alarm_until_it_is_accepted(store: Path, report: Report) -> None:
    for night in range(NIGHTS, NIGHTS + 8):
        _add(store, night, copy=1.03)
    out = _gate(report, store, status=1)
    assert "DRIFT" in out
    assert f"c0ffee{NIGHTS}" in out or f"c0ffee{NIGHTS - 1}" in out or f"c0ffee{NIGHTS + 1}" in out
    report("accept", "copy/*", f"--store={store}", f"--since=c0ffee{NIGHTS}", "--why=it checks now")
    _gate(report, store)
    with open_store(str(store)) as opened:
        assert [one.why for one in opened.annotations()] == ["it checks now"]
    # An accepted level is the reference from then on.
    _add(store, NIGHTS + 8, copy=1.2)
    _gate(report, store, status=1)


def test_what_is_accepted_from_a_later_night_on_is_judged_until_then(store: Path) -> None:
    with open_store(str(store)) as opened:
        opened.accept("*", datetime(2199, 1, 1, tzinfo=timezone.utc), "a mistyped year, which an older program took")
    histories.add(store, [NIGHTS], lambda *_: [builders.error_row(MATMUL, "wrong result"), builders.row(GEMV, 9.0)])
    assert _found(store) == {MATMUL: "failed", GEMV: "slower", COPY: "vanished"}


@pytest.mark.parametrize(
    ("series", "since", "why", "said"),
    [
        ("nothing/*", "2026-01-05", "because", "no case has such a name"),
        ("copy/*", "yesterday", "because", "neither a date nor the commit of a run"),
        ("copy/*", "2026-01-05", " ", "--why is empty"),
        ("copy/*", "2199-01-05", "a mistyped year", "--since=2199-01-05 is yet to come; the newest run is of 20"),
    ],
)
def test_accept_refuses(store: Path, series: str, since: str, why: str, said: str, report: Report) -> None:
    report("accept", series, f"--store={store}", f"--since={since}", f"--why={why}", status=2)
    assert said in report.error
    with open_store(str(store)) as opened:
        assert not opened.annotations()


def test_failed_vanished_ambiguous_and_new_cases(store: Path, report: Report) -> None:
    def tonight(_: int, chance: random.Random) -> list[dict[str, Any]]:
        return [
            builders.error_row(MATMUL, "wrong result"),
            builders.row(COPY, 9.0, noisy=1.0),
            builders.row("x/n:1", 1.0),
        ]

    histories.add(store, [NIGHTS], tonight)
    assert _found(store) == {MATMUL: "failed", GEMV: "vanished", COPY: "ambiguous", "x/n:1": "new"}
    assert "wrong result" in _gate(report, store, status=1)
    histories.add(store, [NIGHTS + 1], lambda night, chance: tonight(night, chance)[1:2])
    assert _found(store) == {MATMUL: "vanished", GEMV: "vanished", COPY: "ambiguous", "x/n:1": "vanished"}


def test_a_night_of_doubtful_rows_alone_says_that_none_was_judged(store: Path, report: Report) -> None:
    markdown = store.parent / "gate.md"

    def tonight(*clean: str) -> histories.Rows:
        return lambda *_: [builders.row(name, 9.0, noisy=float(name not in clean)) for name in (MATMUL, GEMV, COPY)]

    histories.add(store, [NIGHTS], tonight())
    assert "note: none of 3 cases was judged: all rows are in doubt; measure in a quieter hour" in _gate(report, store)
    report("gate", f"--store={store}", f"--markdown={markdown}")
    assert markdown.read_text().startswith("### Gate: nothing was judged\n")
    histories.add(store, [NIGHTS + 1], tonight(COPY))
    assert "none of" not in _gate(report, store)
    report("gate", f"--store={store}", f"--markdown={markdown}")
    assert markdown.read_text().startswith("### Gate: nothing got worse\n")


@pytest.mark.parametrize(
    ("said", "doubt"),
    [
        ({"noisy": 1.0, "ci": 0.12}, "noisy (ci 12 %)"),
        ({"throttled": 1.0}, "throttled"),
        ({"samples": 3.0}, "3 samples"),
        ({"label": "interrupted"}, "interrupted"),
    ],
)
def test_readings_that_distrust_themselves_are_no_part_of_a_verdict(
    tmp_path: Path, said: dict[str, Any], doubt: str, report: Report
) -> None:
    def of_night(factor: float, doubtful: bool) -> histories.Rows:
        rows = histories.rows({GEMV: factor}, names=["other/n:1"])
        return lambda night, chance: [
            {**row, **said} if doubtful and row["name"].startswith("gemv") else row for row in rows(night, chance)
        ]

    store = tmp_path / "history.db"
    for night in range(NIGHTS):  # a fence around all of them would hold a slowdown of 50 %
        histories.add(store, [night], of_night(*((1.0, False) if night % 3 else (3.0, True))))
    histories.add(store, [NIGHTS], of_night(1.5, True))
    out = _gate(report, store)
    assert f"AMBIGUOUS  {GEMV}" in out and f"not judged: {doubt}" in out and "1 AMBIGUOUS" in out
    _gate(report, store, histories.result(tmp_path / "1.json", NIGHTS + 1, of_night(1.5, True)))
    _gate(report, store, histories.result(tmp_path / "1.json", NIGHTS + 1, of_night(1.5, False)), status=1)
    # One process that counts is a night.
    for process, doubtful in enumerate((True, True, False)):
        path = histories.result(tmp_path / "1.json", NIGHTS + 2, of_night(1.5 if doubtful else 1.0, doubtful))
        path.write_text(path.read_text().replace("T00:00:00", f"T0{process}:00:00"))
        report("history", "add", path, f"--store={store}")
    assert _found(store) == {}


@pytest.mark.parametrize("row", [None, builders.error_row(GEMV, "predicted to take 6.5 s")])
def test_a_vanished_case_is_an_alarm_until_it_is_accepted(
    store: Path, tmp_path: Path, row: dict[str, Any] | None, report: Report
) -> None:
    def tonight(night: int, chance: random.Random) -> list[dict[str, Any]]:
        kept = [dict(one) for one in histories.rows()(night, chance) if not one["name"].startswith("gemv")]
        return [*kept, {**row, "skipped": True}] if row else kept

    histories.add(store, range(NIGHTS, NIGHTS + 8), tonight)
    xml = tmp_path / "gate.xml"
    out = _gate(report, store, f"--junit={xml}", status=1)
    assert "VANISHED" in out and "2026-01-31" in out
    assert "tools/report accept" in xml.read_text() and 'failures="1"' in xml.read_text()
    accept = ["accept", GEMV, f"--store={store}", f"--since=c0ffee{NIGHTS}", "--why=replaced"]
    report(*accept)
    _gate(report, store)


def test_a_run_of_a_few_cases_makes_no_others_vanish(store: Path, report: Report) -> None:
    def ad_hoc(night: int, name: str, factor: float, filter_: str) -> None:
        def rows(number: int, chance: random.Random) -> list[dict[str, Any]]:
            all_rows = histories.rows({name: factor})(number, chance)
            return [dict(row) for row in all_rows if row["name"].startswith(name)]

        line = f"build/release/bin/roofbench --benchmark_out=night-{night}.json '--benchmark_filter={filter_}'"
        histories.add(store, [night], rows, suite="full", command_line=line)

    _add(store, NIGHTS, gemv=1.2)
    ad_hoc(NIGHTS + 1, COPY, 1.3, "^copy/ *")
    assert _found(store) == {COPY: "slower", GEMV: "slower"}, "each in the newest night that covers it"
    out = _gate(report, store, status=1)
    assert "1 case, time: 1 SLOWER" in out and "2 cases, time: 1 SLOWER" in out
    # A case has vanished from a selection that had it.
    ad_hoc(NIGHTS + 2, COPY, 1.0, "^(copy|matmul)/")
    ad_hoc(NIGHTS + 3, MATMUL, 1.0, "^(copy|matmul)/")
    ad_hoc(NIGHTS + 4, MATMUL, 1.0, "^matmul/")
    assert _found(store) == {COPY: "vanished", GEMV: "slower"}
    _add(store, NIGHTS + 5)
    assert _found(store) == {}
    histories.add(store, [NIGHTS + 6], lambda night, chance: histories.rows()(night, chance)[:2])
    assert _found(store) == {COPY: "vanished"}
    tonight = histories.result(store.parent / "1.json", NIGHTS + 7, histories.rows(), command_line="x --axis=n=1")
    assert "3 cases, time: nothing to say" in _gate(report, store, tonight)


def test_the_gate_says_when_it_begins_to_judge(tmp_path: Path, report: Report) -> None:
    store = histories.add(tmp_path / "history.db", range(3), histories.rows())
    said = "too young to be judged: 3 of 6 nights; the gate begins to judge in 3 more nights"
    assert f"note: {said}" in _gate(report, store, f"--markdown={tmp_path / 'gate.md'}")
    assert (tmp_path / "gate.md").read_text().startswith("### Gate: nothing was judged\n")
    histories.add(store, range(3, 6), histories.rows(names=["new/n:1"]))
    assert "note: cases that are too young to be judged: new/n:1 (3 of 6 nights)" in _gate(report, store)
    _add(store, 6, gemv=1.2)
    assert _found(store)[GEMV] == "slower"


def test_only_nights_with_a_figure_that_counts_make_a_series_older(tmp_path: Path, report: Report) -> None:
    def of_night(night: int, chance: random.Random) -> list[dict[str, Any]]:
        """One row is in doubt at first, one always; one is always skipped."""
        noisy = {MATMUL: float(night < 5), GEMV: float(night < 4), COPY: 1.0}
        rows = [builders.row(name, 9.0 + chance.random() / 99, noisy=noisy[name]) for name in noisy]
        return [*rows, builders.error_row("huge/n:1", "skipped: too large")]

    store = histories.add(tmp_path / "history.db", range(7), of_night)
    markdown = tmp_path / "gate.md"
    out = _gate(report, store, f"--markdown={markdown}")
    assert "note: too young to be judged: 3 of 6 nights; the gate begins to judge in 3 more nights" in out
    assert "note: none of 4 cases was judged: 2 too young, 1 in doubt, 1 not measured; measure in a quieter hour" in out
    assert markdown.read_text().startswith("### Gate: nothing was judged\n")
    assert f"note: cases that are too young to be judged: {MATMUL} (2 of 6 nights)" in out
    with open_store(str(store)) as opened:
        nights = {"time": by_night(opened.history("time"), opened.runs(), TIME)}
        found = {finding.series: [finding] for finding in judge(opened)}
        rows = overview.overview(nights, found, packaged()).rows
    assert {row.case: (row.status.word, row.text.partition(";")[0]) for row in rows} == {
        MATMUL: ("too young", "2 of 6 nights"),
        GEMV: ("too young", "3 of 6 nights"),
        COPY: ("ambiguous", "not judged: noisy"),
        "huge/n:1": ("skipped", "too large"),
    }


def test_a_new_toolchain_begins_new_series(store: Path, report: Report) -> None:
    histories.add(store, [NIGHTS], histories.rows({GEMV: 1.5}), torch_version="9.9.0")
    out = _gate(report, store)
    assert "3 NEW" in out
    assert "torch_version 9.9.0, was 2.11.0" in out


def test_a_result_is_judged_and_not_added(store: Path, tmp_path: Path, report: Report) -> None:
    slow = histories.result(tmp_path / "slow.json", NIGHTS, histories.rows({GEMV: 1.2}))
    _gate(report, store, slow, status=1)
    _gate(report, store)
    report("history", "add", slow, f"--store={store}")
    _gate(report, store, slow, status=1)
    # An earlier nightly run is judged by the data of its time.
    _add(store, NIGHTS + 1)
    _gate(report, store)
    _gate(report, store, slow, status=1)
    other = histories.result(tmp_path / "other.json", NIGHTS, histories.rows(), device="Another CPU")
    _gate(report, store, slow, other, status=2)
    assert "different machines" in report.error


@pytest.mark.parametrize("pace", ["memory", "threads", "threads of a neighbor"])
def test_the_pace_of_the_machine_is_not_a_finding(tmp_path: Path, pace: str) -> None:
    """Times that follow the roof next to them, or how near the threads are: two in five nightly runs are slow."""

    def night_of(factor: float) -> histories.Rows:
        def of_night(night: int, chance: random.Random) -> list[dict[str, Any]]:
            is_slow = night * 7 % 5 < 2
            slow = (1.6 if pace == "memory" else 1.37) if is_slow else 1.0
            time = 9.0 * slow * factor * math.exp(chance.gauss(0, histories.NOISE))
            if pace == "memory":
                return [builders.row(COPY, time, roof=0.5 * 9.0 * slow / time)]
            handover = (265 if is_slow else 60) * math.exp(chance.gauss(0, 0.1))
            apart: dict[str, Any] = {"handover_ns": handover}
            if pace == "threads of a neighbor" and night >= NIGHTS:
                apart = {}
            copy = builders.row(COPY, time, roof=0.5 * 9.0 / time, **apart)
            return [copy, builders.row(GEMV, 1.0 + night * 1e-6, handover_ns=handover)]

        return of_night

    store = histories.add(tmp_path / "history.db", range(NIGHTS), night_of(1.0))
    for night in range(NIGHTS, NIGHTS + 5):
        histories.add(store, [night], night_of(1.0))
        assert _found(store) == {}
    histories.add(store, [NIGHTS + 5], night_of(1.08))
    assert _found(store) == {COPY: "slower"}


@pytest.mark.parametrize(("handover", "expected"), [(60.0, 0.0), (265.0, 0.32 * math.log(265 / 60))])
def test_a_second_run_is_held_at_the_place_of_the_threads(handover: float, expected: float) -> None:
    level = nightly_runs.meeting_pace({"handover_ns": 60.0})
    case = Case(COPY, 0, State.MEASURED, seconds=1.0, counters={"handover_ns": handover, "roof": 0.5, "bytes/s": 1e9})
    assert level - second_run._pace(nightly_runs.MEETINGS, case, [case]) == pytest.approx(expected)
    unknown = Case(GEMV, 0, State.MEASURED, seconds=1.0)
    assert level - second_run._pace(nightly_runs.MEETINGS, unknown, [case, unknown]) == pytest.approx(expected)


def _programs(tmp_path: Path, factor: float, before: str = "") -> tuple[str, str]:
    cases = f"{GEMV}:1.0"
    good, new = (
        fake_roofbench.script(tmp_path / name, cases, tmp_path / "runs", before, f"--factor={slowed}")
        for name, slowed in (("good", 1.0), ("new", factor))
    )
    return good, new


@pytest.mark.parametrize(("factor", "status"), [(1.0, 0), (1.1, 1)])
@pytest.mark.parametrize("against", ["base", "itself"])
def test_a_second_run_decides(
    store: Path, tmp_path: Path, factor: float, status: int, against: str, report: Report
) -> None:
    _add(store, NIGHTS, gemv=1.1)
    good, new = _programs(tmp_path, factor)
    flags = [f"--binary={new}", f"--state={tmp_path / 'state'}", "--budget=60min", "--pairs=12"]
    flags += [f"--base={good}"] if against == "base" else []
    out = _gate(report, store, *flags, status=status)
    assert ("not confirmed" in out) == (status == 0)
    assert ("A B B A against the last good build" in out) == (against == "base")
    with open_store(str(store)) as opened:
        (found,) = judge(opened)
        (kept,) = opened.annotations()
    assert (found.kind, found.second_run) == ("slower", "confirmed" if status else "dismissed")
    assert ("A B B A against" in found.text) == (against == "base") and kept.why == found.text
    _add(store, NIGHTS + 1)
    assert _found(store) == {}


def test_a_second_run_of_one_program_keeps_its_budget(store: Path, tmp_path: Path, report: Report) -> None:
    _add(store, NIGHTS, gemv=1.1)
    _, new = _programs(tmp_path, 1.1)
    out = _gate(report, store, f"--binary={new}", f"--state={tmp_path / 'state'}", "--budget=0.001s", status=1)
    assert "1 of 5 processes: another does not fit --budget" in report.error + out
    assert (tmp_path / "runs").read_text() == "1"


def test_a_second_run_without_a_figure_says_why(store: Path, tmp_path: Path, report: Report) -> None:
    _add(store, NIGHTS, gemv=1.1)
    new = fake_roofbench.script(tmp_path / "new", f"{GEMV}:1.0", tmp_path / "runs", "", "--doubtful=noisy")
    out = _gate(report, store, f"--binary={new}", f"--state={tmp_path / 'state'}", "--budget=60min", status=1)
    assert "no process gave a figure that counts (noisy; on a quiet machine it does)" in out


def test_second_runs_have_the_flags_that_the_cases_were_measured_with(
    store: Path, tmp_path: Path, report: Report
) -> None:
    """Of the process that measured a case: two processes of a night had other ones."""

    def of(name: str) -> histories.Rows:
        def rows(night: int, chance: random.Random) -> list[dict[str, Any]]:
            return [dict(row) for row in histories.rows({name: 1.2})(night, chance) if row["name"].startswith(name)]

        return rows

    lines = {
        COPY: "bin/roofbench --suite=quick '--axis=copy.bytes=8,x y' --journal=a --max_time=1",
        GEMV: "bin/roofbench --unverified --threads=1",
    }
    for name, line in lines.items():
        histories.add(store, [NIGHTS], of(name), command_line=line)
    _, new = _programs(tmp_path, 1.2, f'printf "%s|" "$@" >>{tmp_path}/calls; echo >>{tmp_path}/calls')
    _gate(report, store, f"--binary={new}", f"--state={tmp_path / 'state'}", "--flag=--min_samples=7", status=1)
    calls = {line.partition("--benchmark_out=")[0] for line in (tmp_path / "calls").read_text().splitlines()}
    assert calls == {
        f"--axis=copy.bytes=8,x y|--threads=2|--min_samples=7|{command.filter_of([COPY])}|",
        f"--unverified|--threads=1|--min_samples=7|{command.filter_of([GEMV])}|",
    }
    histories.add(store, [NIGHTS + 1], of(GEMV), command_line="bin/roofbench --axis=…")
    out = _gate(report, store, f"--binary={new}", f"--state={tmp_path / 'other'}", status=1)
    assert "run again: history.json has only the beginning of its command line" in out


def test_a_second_run_confirms_what_is_near_its_fence(store: Path, tmp_path: Path, report: Report) -> None:
    _add(store, NIGHTS, gemv=1.045)
    assert _found(store) == {}, "too near without a second run"
    good, new = _programs(tmp_path, 1.045)
    again = [f"--binary={new}", f"--base={good}", "--budget=60min", "--pairs=30"]
    tonight = histories.result(tmp_path / "1.json", NIGHTS + 1, histories.rows({GEMV: 1.045}))
    _gate(report, store, *again, f"--state={tmp_path / '1'}", tonight, status=1)
    assert _found(store) == {}, "of a night that is not in the history"
    _gate(report, store, *again, f"--state={tmp_path / '2'}", status=1)
    assert _found(store) == {GEMV: "slower"}
    _gate(report, store, *again, f"--state={tmp_path / '2'}", status=1)
    with open_store(str(store)) as opened:
        assert len(opened.annotations()) == 1, "the same verdict is kept once"


def test_a_verdict_that_cannot_be_kept_stands(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report
) -> None:
    def refuse(*_: object) -> None:
        raise UnusableInputError("the disk is full")

    _add(store, NIGHTS, gemv=1.1)
    good, new = _programs(tmp_path, 1.1)
    monkeypatch.setattr(Store, "accept", refuse)
    out = _gate(report, store, f"--binary={new}", f"--base={good}", f"--state={tmp_path / '1'}", "--pairs=12", status=1)
    assert "1 SLOWER" in out and "note: the site does not show what the second run said: the disk is full" in out


def test_a_confirmed_slowdown_has_profiles_of_both_programs(store: Path, tmp_path: Path, report: Report) -> None:
    _add(store, NIGHTS, gemv=1.1, matmul=1.1, copy=1.1)
    cases = ",".join(f"{name}:{time}" for name, time in builders.TIMES.items())
    good, new = (
        fake_roofbench.script(tmp_path / name, cases, tmp_path / "runs", flags=f"--factor={factor}")
        for name, factor in (("good", 1.0), ("new", 1.1))
    )
    flags = [f"--state={tmp_path / 'state'}", "--budget=60min", "--pairs=12"]
    for written in (tmp_path / name for name in ("gate.json", "gate.md")):
        flags.append(f"--{written.suffix[1:].replace('md', 'markdown')}={written}")
    _gate(report, store, f"--binary={new}", f"--base={good}", "--profile", *flags, status=1)
    (night,) = json.loads((tmp_path / "gate.json").read_text())["nights"]
    profiles = {one["case"]: one["profile"] for one in night["found"]}
    assert set(profiles) == set(builders.TIMES)
    assert re.search(r"aten::mm +1 ms +1\.1 ms +\+10\.0 %", profiles[GEMV])
    assert re.search(r"^ {4} +aten::mm +10 ms +11 ms", (tmp_path / "gate.md").read_text(), re.MULTILINE)
    with open_store(str(store)) as opened:
        kept = [one.why for one in opened.annotations() if one.kind == "profile"]
    assert sorted(kept) == sorted(profiles.values())


@pytest.mark.parametrize(
    ("before", "flags", "why"),
    [
        ("echo no such flag >&2; exit 2", "", "the old program: exit status 2: no such flag"),
        ("kill -9 $$", "", "the old program: ended by SIGKILL"),
        (":", "--no_profile", "the old program: it wrote no profile"),
        ("more=--fail=" + GEMV, "", "the old program: failed: so told"),
    ],
)
def test_a_profile_that_fails_says_why_and_costs_no_more(
    store: Path, tmp_path: Path, before: str, flags: str, why: str, report: Report
) -> None:
    _add(store, NIGHTS, gemv=1.1)
    case = f"{GEMV}:1.0"
    only_then = f'case "$*" in *--profile=*) {before} ;; esac'
    _, new = _programs(tmp_path, 1.1)
    good = fake_roofbench.script(tmp_path / "good", case, tmp_path / "runs", before=only_then, flags=flags)
    written = tmp_path / "gate.json"
    again = [f"--binary={new}", f"--base={good}", f"--state={tmp_path / 'state'}", "--pairs=12"]
    _gate(report, store, *again, "--profile", f"--json={written}", status=1)
    (found,) = json.loads(written.read_text())["nights"][0]["found"]
    assert found["profile"].startswith("no profile: ") and why in found["profile"]
    assert found["second_run"] == "confirmed" and _found(store) == {GEMV: "slower"}


def test_another_machine_cannot_run_it_again(store: Path, tmp_path: Path, report: Report) -> None:
    _add(store, NIGHTS, gemv=1.2)
    _, new = _programs(tmp_path, 1.0)
    out = _gate(report, store, f"--binary={new} --device=Other", f"--state={tmp_path / 'state'}", status=1)
    assert "nothing was run again: this machine (Other" in out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--base=FOLDER", "--base needs --binary"),
        ("--binary=x --profile", "--profile needs --base"),
        ("--base=FOLDER --binary=x", "has neither bin/roofbench"),
        ("--binary=FOLDER/none", "none: no such program"),
        ("--base=FOLDER/none --binary=sh", "none: no such program"),
        ("--store=FOLDER/none.db", "there is no history yet"),
    ],
)
def test_the_gate_refuses(flags: str, said: str, store: Path, tmp_path: Path, report: Report) -> None:
    _gate(report, store, *flags.replace("FOLDER", str(tmp_path)).split(), status=2)
    assert said in report.error


def test_json(store: Path, tmp_path: Path, report: Report) -> None:
    _add(store, NIGHTS, gemv=1.2)
    _gate(report, store, f"--json={tmp_path / 'gate.json'}", status=1)
    document = json.loads((tmp_path / "gate.json").read_text())
    assert document["alarm"] is True
    (night,) = document["nights"]
    (found,) = night["found"]
    assert (found["kind"], found["case"], night["cases"]) == ("slower", GEMV, 3)
    assert found["effect"] == pytest.approx(0.2, abs=0.05)


def test_a_second_run_in_two_states_confirms_nothing() -> None:
    stands = SeriesState(0.0, [], 0.0, None, None, 0.0, Fence(0.0, 0.03, 0.05), 0.65, NOT_AT_ALL)
    fast, slow = 0.001, math.log(200 / 104)
    assert stays([slow, slow + 0.01, slow - 0.01, slow, slow], stands)
    assert not stays([slow, fast, slow + 0.01, fast + 0.001, slow - 0.01], stands)
    assert stays([0.05, 0.06, 0.055, 0.052, 0.4], stands), "the faster ones are slow, too"
