# SPDX-License-Identifier: Apache-2.0
"""tools/report history, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import GEMV, HOSTILE, MATMUL, document, error_row, journal_text, row, scaled, write_json
from reports import Report
from roofreport.cli import main
from roofreport.history import tables
from roofreport.history.export import FORMATS
from roofreport.history.record import of_text
from roofreport.history.store import open_store
from sqlalchemy import delete, update


class History:
    """`tools/report history …` on one store."""

    def __init__(self, where: str, report: Report) -> None:
        self._where = where
        self._report = report

    def __call__(self, *arguments: object, status: int = 0) -> str:
        return self._report("history", *arguments, f"--store={self._where}", status=status)

    @property
    def error(self) -> str:
        return self._report.error


@pytest.fixture
def history(where: str, report: Report) -> History:
    return History(where, report)


def _nights(folder: Path, count: int) -> list[Path]:
    return [
        write_json(folder / f"{day}.json", scaled(1 + 0.1 * day), date=f"2026-01-0{day}T02:00:00Z")
        for day in range(1, count + 1)
    ]


def test_runs_are_added_listed_and_shown(history: History, tmp_path: Path) -> None:
    paths = _nights(tmp_path, 2)
    assert history("add", *paths).count("3 cases") == 2
    assert history.error == ""
    assert history("add", paths[0]) == f"{paths[0]}: run 1 is there already\n"
    lines = history("list").splitlines()
    assert [line.split()[:3] for line in lines[2:]] == [["1", "2026-01-01", "02:00"], ["2", "2026-01-02", "02:00"]]
    shown = history("show", GEMV)
    assert "1.1 ms" in shown
    assert "+9.1 %" in shown
    key = next(line.split()[0] for line in history("list", "--series").splitlines() if GEMV in line)
    assert history("show", key) == shown
    assert history("show", "gemv*", "--last=1").count("2026-01") == 1
    assert "45.5" in history("show", MATMUL, "--metric=roof")


def test_readings_without_the_metric_are_shown(history: History, tmp_path: Path) -> None:
    for day, disturbed in enumerate((1.0, 0.0), 1):
        rows = [row(MATMUL, 10.0, disturbed=disturbed)]
        for one in rows:
            del one["roof"]
        history("add", write_json(tmp_path / f"{day}.json", rows, date=f"2026-01-0{day}T02:00:00Z"))
        lines = history("show", "matmul*", "--metric=roof").splitlines()
    found = [line.partition("no roof")[2].split() for line in lines if "2026-01" in line]
    assert found == [[":", "disturbed", "disturbed"], []]
    history("show", "gemv*", "--metric=roof", status=2)
    assert "no case has such a name" in history.error


def test_a_folder_holds_results_and_their_journals(history: History, tmp_path: Path) -> None:
    result, journal = write_json(tmp_path / "1.json"), tmp_path / "1.jsonl"
    journal.write_text(journal_text())
    assert "run 1, 3 cases" in history("add", result)
    one = write_json(tmp_path / "one.json", [row(MATMUL, 1.0)], date="2026-02-01T02:00:00Z")
    assert "run 2, 1 case," in history("add", one)
    assert f"{journal}: run 1 existed; this record completes it" in history("add", result, journal)
    assert history("add", result, journal).count("is there already") == 2
    assert history("list").count("\n") == 4


def test_a_new_machine_is_said(history: History, tmp_path: Path) -> None:
    history("add", *_nights(tmp_path, 1))
    history("add", write_json(tmp_path / "new.json", device="New CPU"))
    assert "New CPU, 2 threads is a machine that was not seen before" in history.error
    history("add", write_json(tmp_path / "newer.json", date="2026-01-05", device="New CPU", torch_version="3"))
    assert "it begins new series" in history.error


def test_a_known_run_keeps_its_date_and_says_so(history: History, tmp_path: Path) -> None:
    (path,) = _nights(tmp_path, 1)
    history("add", path)
    history("add", path, "--started=2026-01-01", status=2)
    assert "run 1 is there already, of 2026-01-01" in history.error
    prune = history.error.partition("tools/report history ")[2].split()[:2]
    history(*prune)
    history("add", path, "--started=2025-12-31")
    assert "2025-12-31" in history("list")


def test_files_that_hold_no_run_leave_no_history(tmp_path: Path, report: Report) -> None:
    store = tmp_path / "history.db"
    (tmp_path / "text.json").write_text("no result")
    for name in ("missing.jsonl", "text.json"):
        report("history", "add", tmp_path / name, f"--store={store}", status=2)
        assert name in report.error and not store.exists()


def test_a_bad_file_does_not_keep_the_others_out(history: History, tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text("{}")
    history("add", tmp_path / "0.json", write_json(tmp_path / "1.json"), status=2)
    assert "1.json" in history("list")


def test_old_runs_are_pruned(history: History, where: str, tmp_path: Path) -> None:
    paths = _nights(tmp_path, 3)
    history("add", *paths)
    assert "2 runs would be gone" in history("prune", "--before=2026-01-03", "--dry-run")
    assert history("list").count("2026-01") == 3
    assert "2 runs are gone" in history("prune", "--before=2026-01-03")
    assert history("verify") == "1 run, 0 faults\n"
    with open_store(where) as store:
        assert [len(readings) for readings in store.history("time").values()] == [1, 1, 1]
    assert "1 run is gone" in history("prune", "--run=3")
    assert history("verify") == "0 runs, 0 faults\n"
    history("prune", "--run=3", status=2)
    assert "has no run 3" in history.error
    assert history("add", paths[0]).count("3 cases") == 1


def test_damage_is_an_alarm(history: History, where: str, tmp_path: Path) -> None:
    history("add", *_nights(tmp_path, 4))
    assert history("verify") == "4 runs, 0 faults\n"
    changed = of_text(tmp_path, json.dumps(document(scaled(1.2000000001), date="2026-01-02T02:00:00Z"))).text
    files, readings = tables.records, tables.readings
    with open_store(where) as store, store.database.writing() as connection:
        connection.execute(update(files).where(files.c.run_id == 1).values(text=b"\0\1"))
        connection.execute(update(files).where(files.c.run_id == 2).values(text=tables.packed(changed)))
        connection.execute(delete(readings).where(readings.c.run_id == 3))
        connection.execute(delete(files).where(files.c.run_id == 4))
    text = history("verify", status=1)
    for words in (
        "run 1: its record cannot be read: it is damaged",
        "run 2: its record is not what was added",
        "run 3: it has 0 readings",
        "run 4: its record is missing",
        "4 runs, 4 faults",
    ):
        assert words in text


def test_a_history_moves_to_another_database(history: History, where: str, tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text(journal_text())
    history("add", write_json(tmp_path / "0.json"), tmp_path / "0.jsonl", *_nights(tmp_path, 2))
    assert main(["accept", GEMV, f"--store={where}", "--since=2026-01-02", "--why=so be it"]) == 0
    target = tmp_path / "other.db"
    assert history("migrate", f"--to={target}").endswith("3 of 3 runs are new there\n")
    assert history("migrate", f"--to={target}") == "0 of 3 runs are new there\n"
    with open_store(where) as store, open_store(str(target)) as copy:
        assert [run.digest for run in copy.runs()] == [run.digest for run in store.runs()]
        assert copy.annotations() == store.annotations() != []
        assert copy.case_details(copy.runs()[0]) == store.case_details(store.runs()[0])
        assert {series.key for series in copy.series()} == {series.key for series in store.series()}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written(name: str, history: History, tmp_path: Path) -> None:
    history("add", *_nights(tmp_path, 1))
    out = tmp_path / "out"
    assert history("export", f"--format={name}", f"--output={out}") == ""
    assert out.stat().st_size > 100


@pytest.mark.parametrize(
    ("flags", "why"),
    [(["--format=parquet"], "is not text"), (["--format=gpt-fast", "--last=2"], "omit --last")],
)
def test_exports_that_make_no_sense_are_refused(flags: list[str], why: str, history: History, tmp_path: Path) -> None:
    history("add", *_nights(tmp_path, 1))
    history("export", *flags, status=2)
    assert why in history.error


@pytest.mark.parametrize("action", [["list"], ["list", "--series"], ["export", "--format=gpt-fast"]])
def test_a_machine_that_is_not_there_is_refused(action: list[str], history: History, tmp_path: Path) -> None:
    history("add", *_nights(tmp_path, 1))
    history(*action, "--machine=EPCY", status=2)
    assert "--machine=EPCY: no machine has this in its name; there are " in history.error


def test_untrusted_text_does_not_act(history: History, tmp_path: Path) -> None:
    rows = [*(row(name, 1.0) for name in HOSTILE), error_row("a/n:1", "failed: \x1b[2J<b>")]
    context = {"device": "CPU \x1b[31m\u202eevil", "roofbench_revision": "\x1b[2J<img>", "torch_version": "=1+1"}
    path = write_json(tmp_path / "1.json", rows, date="2026-01-01T02:00:00Z", **context)
    seen = history("add", path) + history.error + history("list") + history("list", "--series") + history("show", "*")
    assert "\x1b" not in seen
    assert "\u202e" not in seen
    assert HOSTILE[0] in seen
