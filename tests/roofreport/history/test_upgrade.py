# SPDX-License-Identifier: Apache-2.0
"""A history of version 1, which kept files of two formats: it becomes one of records, and nothing of it is lost."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from builders import BEGAN, GEMV, header, journal_text, line, scaled, write_json
from roofreport.errors import UnusableInputError
from roofreport.history import tables
from roofreport.history.database import open_database
from roofreport.history.keeping import faults
from roofreport.history.record import of_file
from roofreport.history.store import Store, open_store
from sqlalchemy import text

_UNDATED = journal_text(header(started="", host_name=""), line(GEMV, 1.0)).replace(
    '"started": "", "host_name": "", ', ""
)


def _make_old(where: str, kept: Mapping[int, Mapping[str, str]]) -> None:
    """The history as version 1 had it, with these files of each run by their kind."""
    with open_store(where) as store, store.database.writing() as connection:
        blob = "BLOB" if store.database.is_sqlite else "BYTEA"
        for change in (
            "ALTER TABLE roofbench_runs RENAME COLUMN identity TO content",
            "ALTER TABLE roofbench_runs RENAME COLUMN converted TO dated",
            "DROP TABLE roofbench_records",
            "CREATE TABLE roofbench_documents (run_id BIGINT REFERENCES roofbench_runs (id) ON DELETE CASCADE,"
            f" kind VARCHAR(10), digest VARCHAR(64) NOT NULL, text {blob} NOT NULL, PRIMARY KEY (run_id, kind))",
            "UPDATE roofbench_meta SET value = '1'",
            "UPDATE roofbench_runs SET digest = 'of nine digits ' || id, content = 'of nine digits'",
        ):
            connection.execute(text(change))
        for run, files in kept.items():
            for kind, content in files.items():
                row = {"run": run, "kind": kind, "data": tables.packed(content), "digest": _digest(content)}
                connection.execute(text("INSERT INTO roofbench_documents VALUES (:run, :kind, :digest, :data)"), row)


def _digest(content: str) -> str:
    return sha256(content.encode()).hexdigest()


def _has_files(store: Store) -> bool:
    with store.database.reading() as connection:
        return store.database.engine.dialect.has_table(connection, tables.FILES)


def test_files_become_records(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write_json(tmp_path / f"{day}.json", scaled(day), date=f"2026-01-0{day}T02:00:00Z") for day in (1, 2, 3)]
    journal = tmp_path / "4.jsonl"
    journal.write_text(journal_text())
    undated = tmp_path / "undated.jsonl"
    undated.write_text(_UNDATED)
    with open_store(where, create=True) as store:
        for path in (*paths, journal):
            store.add(of_file(path))
        store.accept("*", store.runs()[0].started, "so be it")
        before = store.runs(), store.history("time"), store.annotations()
    other = _UNDATED.replace('"stop": "converged"', '"stop": "max_time"')
    files = [path.read_text() for path in paths]
    kept = [
        {"json": files[0]},
        {"json": files[1], "journal": _UNDATED},
        {"journal": other},
        {"journal": journal_text()},
    ]
    _make_old(where, dict(enumerate(kept, 1)))
    with open_store(where) as store:
        assert "is of an older version; turning its files into records" in capsys.readouterr().err
        runs = store.runs()
        assert [run.id for run in runs] == [run.id for run in before[0]] and store.annotations() == before[2]
        assert [series.key for series in store.history("time")] == [series.key for series in before[1]]
        by_id = {run.id: store.record(run) for run in runs}
        assert [by_id[number].is_converted for number in (1, 2, 3, 4)] == [True, False, False, False]
        assert (by_id[3].text, by_id[4].text) == (other, journal_text())
        # Of both files of a run: the samples of one, the date and the host of the other.
        assert (by_id[2].text, runs[2].id, runs[2].context["host_name"]) == (_UNDATED, 2, BEGAN["host_name"])
        assert runs[2].context["started"] == f"{runs[2].started:%Y-%m-%dT%H:%M:%SZ}" == "2026-01-02T02:00:00Z"
        assert not any(store.add(of_file(path)).is_new for path in (*paths[:2], undated, journal))
        assert not _has_files(store)
        wrong = list(faults(store))
        assert [fault.partition(":")[0] for fault in wrong] == ["run 2", "run 3"], "made with files of other cases"
    with open_store(where):
        assert not capsys.readouterr().err


def test_a_damaged_file_stays(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(where, create=True) as store:
        for factor in (1.0, 2.0, 3.0, 4.0):
            store.add(of_file(write_json(tmp_path / f"{factor}.json", scaled(factor))))
    whole = (tmp_path / "1.0.json").read_text()
    _make_old(where, {1: {"json": whole}, 2: {"json": whole[:-9]}, 3: {}, 4: {"json": whole}})
    with open_store(where) as store:
        said = capsys.readouterr().err
        assert "run 2: 2.0.json: is cut off" in said and "run 4: it has the record of run 1" in said
        assert [fault.rpartition("run ")[2] for fault in faults(store)] == [
            f"{run}: its record is missing" for run in (2, 3, 4)
        ]
        with store.database.reading() as connection:
            kept = connection.execute(text(f"SELECT run_id, text FROM {tables.FILES} ORDER BY run_id")).all()
        assert [(run, tables.unpacked(data)) for run, data in kept] == [(2, whole[:-9]), (4, whole)]


def test_a_changed_file_is_not_taken_for_what_was_added(where: str, tmp_path: Path) -> None:
    with open_store(where, create=True) as store:
        store.add(of_file(write_json(tmp_path / "1.json")))
    _make_old(where, {1: {"json": (tmp_path / "1.json").read_text()}})
    database = open_database(where, create=False)
    with database.writing() as connection:
        connection.execute(text("UPDATE roofbench_documents SET digest = 'x'"))
    database.close()
    with open_store(where) as store:
        assert _has_files(store)
        assert [fault.rpartition("run ")[2] for fault in faults(store)] == ["1: its record is missing"]


@pytest.mark.parametrize(
    "change",
    [
        "roofbench_documents SET kind = 'odd'",
        "roofbench_documents SET kind = x'ff'",
        "roofbench_documents SET text = 'abc'",
        "roofbench_documents SET text = x'ff'",
        "roofbench_documents SET digest = x'ff'",
        "roofbench_runs SET name = x'ff'",
    ],
)
def test_rows_of_another_writer_stay(change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.db"
    with open_store(str(path), create=True) as store:
        store.add(of_file(write_json(tmp_path / "1.json")))
    _make_old(str(path), {1: {"json": (tmp_path / "1.json").read_text()}})
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE {change}")
    with open_store(str(path)) as store:
        assert _has_files(store) and store.annotations() == []
    assert "run 1: " in capsys.readouterr().err


def test_an_upgrade_that_fails_changes_nothing(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from roofreport.history import upgrade

    with open_store(where, create=True) as store:
        store.add(of_file(write_json(tmp_path / "1.json")))
    _make_old(where, {1: {"json": (tmp_path / "1.json").read_text()}})

    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(upgrade, "_convert", broken)
        with pytest.raises(RuntimeError, match="planted"):
            open_store(where)
    with open_store(where) as store:
        assert list(faults(store)) == []
        assert not store.add(of_file(tmp_path / "1.json")).is_new


def test_an_old_history_that_may_not_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tmp_path / "history.db"
    with open_store(str(where), create=True) as store:
        store.add(of_file(write_json(tmp_path / "1.json")))
    _make_old(str(where), {1: {"json": (tmp_path / "1.json").read_text()}})
    before = where.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        with pytest.raises(UnusableInputError, match="it cannot be written to"):
            open_store(str(where))
    assert where.read_bytes() == before
