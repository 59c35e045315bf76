# SPDX-License-Identifier: Apache-2.0
"""Files that are not histories, or cannot be written to: reported in a line, and left unchanged."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders import ROOT, row, scaled, write_json
from postgresql import Server
from roofreport.errors import UnusableInputError
from roofreport.history import record, tables
from roofreport.history.keeping import faults
from roofreport.history.record import of_file
from roofreport.history.store import Store, open_store
from sqlalchemy import create_engine, text, update

_MODULE = ROOT / "tools/isolated.py"


def _report(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", _MODULE, "roofreport", "history", *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def _other_program(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_text("name,value\n" * 100), "is not a history but another kind of file"),
        (_other_program, "is a database of another program"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + b"\x5a" * 5000), "is not an SQLite file, or is damaged"),
        (lambda path: path.mkdir(), "is not a file"),
    ],
)
def test_a_foreign_file_is_refused_and_left_alone(make: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    for create in (True, False):
        with pytest.raises(UnusableInputError, match=why):
            open_store(str(path), create=create)
    assert (path.read_bytes() if path.is_file() else b"") == before
    assert sorted(tmp_path.iterdir()) == [path], "no other file was made"


def test_a_file_that_was_only_begun_is_finished(tmp_path: Path) -> None:
    """As a writer leaves it who is killed at the worst moment: a database without a table and without our mark."""
    path = tmp_path / "history.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 1")
    assert path.read_bytes().startswith(b"SQLite format 3")
    with pytest.raises(UnusableInputError):
        open_store(str(path))
    with open_store(str(path), create=True) as store:
        assert store.add(of_file(write_json(tmp_path / "1.json"))).is_new


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("", "an empty name"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("mysql://a/b", "a history is a file, sqlite:///FILE or postgresql"),
        ("postgresql://[::1/x", "is not a database URL"),
        ("nul\0byte", "is not a file name"),
    ],
)
def test_a_place_that_cannot_be_is_refused(where: str, why: str) -> None:
    with pytest.raises(UnusableInputError, match=why):
        open_store(where, create=True)


def test_nothing_is_made_unless_it_is_asked_for(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, report in ((ROOT, "tools/report"), (Path("/"), f"{ROOT}/tools/report")):
        monkeypatch.chdir(folder)
        with pytest.raises(UnusableInputError, match=f"there is no history yet; {report} history add RESULT makes one"):
            open_store(where)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("version", "why"), [("3", "was made by a newer program"), ("x", "has the unknown version x")])
def test_a_history_of_another_version_is_refused(where: str, version: str, why: str, tmp_path: Path) -> None:
    with open_store(where, create=True) as store:
        store.add(of_file(write_json(tmp_path / "1.json")))
        with store.database.writing() as connection:
            connection.execute(update(tables.meta).values(value=version))
    for create in (True, False):
        with pytest.raises(UnusableInputError, match=why):
            open_store(where, create=create)


def test_a_server_that_does_not_answer_is_named_without_its_password(server: Server, tmp_path: Path) -> None:
    missing = f"postgresql://me:secret@/history?host={tmp_path}&password=hidden"
    with pytest.raises(UnusableInputError) as refused:
        open_store(missing, create=True)
    assert "No such file or directory" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "hidden" not in str(refused.value)
    with pytest.raises(UnusableInputError, match='database "nowhere" does not exist'):
        open_store(server.url("nowhere"), create=True)


def test_tables_of_others_in_the_same_database_stay(postgres_where: str, tmp_path: Path) -> None:
    engine = create_engine(postgres_where.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE runs (id INTEGER)"))
        connection.execute(text("INSERT INTO runs VALUES (7)"))
    with open_store(postgres_where, create=True) as store:
        store.add(of_file(write_json(tmp_path / "1.json")))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT id FROM runs")).scalars().all() == [7]
    engine.dispose()


@contextmanager
def _as_another_user() -> Iterator[None]:
    """Without the rights of root, where we have them."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_history_that_may_not_be_written_to_is_still_read(tmp_path: Path) -> None:
    result = record.of_file(write_json(tmp_path / "1.json"))
    other = record.of_file(write_json(tmp_path / "2.json", scaled(2.0)))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder) / "history.db"
        with open_store(str(path), create=True) as store:
            store.add(result)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        with _as_another_user(), open_store(str(path), create=True) as store:
            assert len(store.history("time")) == 3
            assert len(store.case_details(store.runs()[0])) == 3
            with pytest.raises(UnusableInputError, match="the file or its folder is read-only"):
                store.add(other)
        new = str(path.parent / "new.db")
        with _as_another_user(), pytest.raises(UnusableInputError, match="its folder is missing or may not be"):
            open_store(new, create=True)
        path.parent.chmod(0o755)


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


def test_a_limit_on_file_sizes_loses_nothing(tmp_path: Path) -> None:
    where = str(tmp_path / "history.db")
    with open_store(where, create=True) as store:
        store.add(of_file(write_json(tmp_path / "1.json")))
    large = write_json(tmp_path / "2.json", [row(f"matmul/n:{number}", 1.0) for number in range(2000)])
    done = _report("add", f"--store={where}", large, preexec_fn=_small_files)
    assert done.returncode == 2, done.stdout
    assert "nothing of this was kept" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    with open_store(where) as store:
        assert len(store.runs()) == 1
        assert list(faults(store)) == []
        assert store.add(of_file(large)).is_new


def test_a_full_disk_is_reported_as_one(tmp_path: Path) -> None:
    """Uses a separate file system, where one can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root and its permission")
    try:
        where = str(disk / "history.db")
        _report("add", f"--store={where}", write_json(tmp_path / "1.json"))
        large = write_json(tmp_path / "2.json", [row(f"matmul/n:{number}", 1.0) for number in range(2000)])
        done = _report("add", f"--store={where}", large)
        assert done.returncode == 2
        assert "the disk is full; nothing of this was kept" in done.stderr
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        assert _report("add", f"--store={where}", large).returncode == 0
        assert _report("verify", f"--store={where}").stdout.strip() == "2 runs, 0 faults"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_block_that_fails_is_rolled_back(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from roofreport.history import store as store_module

    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "insert_readings", broken)
        with pytest.raises(RuntimeError, match="planted"):
            store.add(of_file(write_json(tmp_path / "1.json")))
    assert store.runs() == []
    assert store.add(of_file(tmp_path / "1.json")).is_new
    assert list(faults(store)) == []


@pytest.mark.parametrize(
    "change",
    [
        "roofbench_readings SET seconds = 'abc'",
        "roofbench_readings SET counters = x'00'",
        "roofbench_readings SET state = 'odd'",
        "roofbench_readings SET reason = x'ff'",
        "roofbench_readings SET layout_id = 99",
        "roofbench_runs SET started = 'yesterday'",
        "roofbench_runs SET context = '{'",
        pytest.param(f"roofbench_runs SET context = '{'[' * 100_000}'", id="deep context"),
        """roofbench_runs SET context = '{"device": [1]}'""",
        "roofbench_runs SET revision = x'ff'",
        "roofbench_machines SET facts = '[1]'",
        "roofbench_layouts SET names = '3' WHERE id = 1",
        "roofbench_cases SET name = x'ff' WHERE id = 1",
        "roofbench_annotations SET since = 'x'",
        "roofbench_annotations SET why = x'ff'",
        "roofbench_records SET text = x'ff'",
        "roofbench_records SET text = 'abc'",
    ],
)
def test_rows_of_another_writer_are_refused(change: str, tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with open_store(str(path), create=True) as store:
        store.add(of_file(write_json(tmp_path / "1.json")))
        store.accept("*", store.runs()[0].started, "so be it")
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE {change}")
    with pytest.raises(UnusableInputError) as refused, open_store(str(path)) as store:
        store.annotations()
        store.history("time")
        store.case_details(store.runs()[0])
    assert str(refused.value).startswith(str(path))


_ENDLESS = "WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM n) SELECT"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (f"DROP TABLE roofbench_meta; CREATE VIEW roofbench_meta AS {_ENDLESS} 'version' AS key, x AS value FROM n",
         "has no table roofbench_meta"),
        (f"DROP TABLE roofbench_runs; CREATE VIEW roofbench_runs AS {_ENDLESS} x AS id FROM n",
         "has no table roofbench_runs"),
        (f"CREATE TRIGGER slow BEFORE INSERT ON roofbench_runs BEGIN {_ENDLESS} x FROM n; END", "trigger"),
        ("DROP TABLE roofbench_cases; CREATE VIRTUAL TABLE roofbench_cases USING fts5(name)", "virtual table"),
    ],
)  # fmt: skip
def test_a_database_that_acts_is_refused(change: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    open_store(str(path), create=True).database.close()
    with sqlite3.connect(path) as database:
        database.executescript(change)
    for create in (True, False):
        with pytest.raises(UnusableInputError, match=why):
            open_store(str(path), create=create)


def test_a_record_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LARGEST_FILE", 1000)
    with pytest.raises(ValueError, match="cut off"):
        tables.unpacked(tables.packed("0" * 1001))


def test_json_whose_record_would_be_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "LARGEST_FILE", 1000)
    with pytest.raises(UnusableInputError, match="would be a record above 256 MiB"):
        record.of_file(write_json(tmp_path / "1.json"))
