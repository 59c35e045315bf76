# SPDX-License-Identifier: Apache-2.0
"""A history in both databases: each added run is there once, whole, and in its series."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
from builders import GEMV, MATMUL, document, error_row, header, journal_text, line, row, scaled, write_json
from roofreport.errors import UnusableInputError
from roofreport.history.keeping import copy, faults, prune
from roofreport.history.store import Store, open_store
from roofreport.io.result import State


def _date(day: int) -> str:
    return f"2026-01-{day:02d}T02:00:00+00:00"


def _night(folder: Path, day: int, factor: float = 1.0, **context: str) -> Path:
    return write_json(folder / f"{day}.json", scaled(factor), date=_date(day), **context)


def _journal(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text(journal_text(*lines))
    return path


def test_a_run_is_there_once(store: Store, tmp_path: Path) -> None:
    path = _night(tmp_path, 1)
    first, second = store.add_file(path), store.add_file(path)
    assert (first.is_new, second.is_new) == (True, False)
    assert first.run == second.run
    assert (first.run.revision, first.run.name, first.cases) == ("abc", "1.json", 3)
    assert first.run.started == datetime(2026, 1, 1, 2, tzinfo=timezone.utc)
    assert [run.id for run in store.runs()] == [first.run.id]


@pytest.mark.parametrize("journal_first", [True, False])
def test_a_journal_and_its_result_are_one_run(store: Store, tmp_path: Path, journal_first: bool) -> None:
    files = [_night(tmp_path, 1), _journal(tmp_path / "1.jsonl")]
    added = [store.add_file(path) for path in (reversed(files) if journal_first else files)]
    assert [one.is_new for one in added] == [True, False]
    assert added[1].completed
    assert not any(store.add_file(path).completed for path in files)
    (run,) = store.runs()
    details = store.case_details(run)[MATMUL]
    assert details.samples_s == pytest.approx([0.01, 0.0101, 0.0099])
    assert (details.roof_name, details.roof_ratios) == ("memory", [0.5, 0.51])
    assert details.counters["roof"] == 0.5
    assert list(faults(store)) == []


def test_two_journals_of_one_machine_are_two_runs(store: Store, tmp_path: Path) -> None:
    for number, time in ((1, 1.0), (2, 1.1)):
        store.add_file(_journal(tmp_path / f"{number}.jsonl", header(), line(GEMV, time)))
    assert len(store.runs()) == 2


def test_every_byte_comes_back(store: Store, tmp_path: Path) -> None:
    path = _journal(tmp_path / "1.jsonl")
    run = store.add_file(path).run
    assert [one.text for one in store.documents(run)] == [path.read_text()]
    assert run.context["device"] == "Test CPU"


def test_history_is_oldest_first_whatever_came_first(store: Store, tmp_path: Path) -> None:
    for day in (3, 1, 2):
        store.add_file(_night(tmp_path, day, factor=day))
    found = {series.case: readings for series, readings in store.history("time").items()}
    assert [reading.value for reading in found[GEMV]] == pytest.approx([0.001, 0.002, 0.003])
    (matmul,) = store.series("time", "matmul*")
    assert store.readings(matmul) == found[MATMUL]
    newest = {series.case: readings for series, readings in store.history("time", run_limit=2).items()}
    assert newest[GEMV] == found[GEMV][1:]
    (utilisation,) = store.series("a100_flop_util", MATMUL)
    assert store.readings(utilisation)[0].value == pytest.approx(found[MATMUL][0].counters["a100_flop_util"])


def test_a_reading_is_the_median_of_its_repetitions(store: Store, tmp_path: Path) -> None:
    rows = [row(GEMV, time, repetition) for repetition, time in enumerate((1.0, 5.0, 1.2))]
    store.add_file(write_json(tmp_path / "1.json", rows))
    ((reading,),) = store.history("time").values()
    assert reading.value == pytest.approx(0.0012)


def test_a_failed_case_is_a_reading_without_a_value(store: Store, tmp_path: Path) -> None:
    rows = [row(MATMUL, 10.0, noisy=1.0), error_row(GEMV, "failed: wrong result")]
    store.add_file(write_json(tmp_path / "1.json", rows))
    found = {series.case: readings[0] for series, readings in store.history("time").items()}
    assert (found[GEMV].value, found[GEMV].state, found[GEMV].reason) == (None, State.FAILED, "wrong result")
    assert (found[GEMV].noisy, found[MATMUL].noisy) == (False, True)


@pytest.mark.parametrize(
    ("changed", "new_machine", "new_toolchain"),
    [
        ({"device": "Another CPU"}, True, False),
        ({"threads": "1"}, True, False),
        ({"gpu_driver": "580.2"}, True, False),
        ({"torch_version": "2.12.0"}, False, True),
        ({"compiler": "gcc 15"}, False, True),
        ({"roofbench_revision": "def"}, False, False),
        ({"host_name": "another"}, False, False),
    ],
)
def test_another_machine_or_toolchain_begins_new_series(
    store: Store, tmp_path: Path, changed: dict[str, str], new_machine: bool, new_toolchain: bool
) -> None:
    store.add_file(_night(tmp_path, 1))
    before = {series.key for series in store.series()}
    added = store.add_file(_night(tmp_path, 2, 1.0, **changed))
    assert (added.new_machine, added.new_toolchain) == (new_machine, new_toolchain)
    after = {series.key for series in store.series()}
    assert before <= after
    assert len(after) == (6 if new_machine or new_toolchain else 3)


def test_annotations_are_kept_in_order(store: Store) -> None:
    since = datetime(2026, 1, 2, tzinfo=timezone.utc)
    accepted = store.accept("gemv/*", since, "a new kernel, <b>slower</b>\0 but right")
    store.accept("", since, "moved house", "0123456789ab", kind="note")
    found = store.annotations()
    assert found[0] == accepted
    assert (found[0].since, found[0].kind) == (since, "accepted")
    assert found[0].why == "a new kernel, <b>slower</b>\\x00 but right"
    assert (found[1].pattern, found[1].machine_id, found[1].kind) == ("", "0123456789ab", "note")


def test_pruned_runs_are_gone_and_the_rest_is_whole(store: Store, tmp_path: Path) -> None:
    runs = [store.add_file(_night(tmp_path, day)).run for day in (1, 2, 3)]
    prune(store, runs[:2])
    assert store.runs() == runs[2:]
    assert list(faults(store)) == []
    assert all(len(readings) == 1 for readings in store.history("time").values())
    with pytest.raises(UnusableInputError, match="has no run"):
        store.run(runs[0].id)
    assert store.add_file(tmp_path / "1.json").is_new


def test_a_copy_is_the_same_history(store: Store, tmp_path: Path) -> None:
    for day in (1, 2):
        store.add_file(_night(tmp_path, day, factor=day))
    store.add_file(_journal(tmp_path / "1.jsonl"))
    store.accept(GEMV, datetime(2026, 1, 2, tzinfo=timezone.utc), "so be it")
    with open_store(str(tmp_path / "copy.db"), create=True) as target:
        assert [copy(store, target), copy(store, target)] == [2, 0]
        assert [run.digest for run in target.runs()] == [run.digest for run in store.runs()]
        assert len(target.annotations()) == 1
        assert target.case_details(target.runs()[0]) == store.case_details(store.runs()[0])
        assert {series.key for series in target.series()} == {series.key for series in store.series()}


def test_what_is_damaged_is_found(store: Store, tmp_path: Path) -> None:
    from roofreport.history import tables
    from roofreport.history.document import packed
    from sqlalchemy import delete, update

    runs = [store.add_file(_night(tmp_path, day)).run for day in (1, 2, 3, 4)]
    assert list(faults(store)) == []
    changed = json.dumps(document(scaled(2.0), date=_date(2)))
    files, readings = tables.documents, tables.readings
    with store.database.writing() as connection:
        connection.execute(update(files).where(files.c.run_id == runs[0].id).values(text=b"\0\1"))
        connection.execute(update(files).where(files.c.run_id == runs[1].id).values(text=packed(changed)))
        connection.execute(delete(readings).where(readings.c.run_id == runs[2].id))
        connection.execute(delete(files).where(files.c.run_id == runs[3].id))
    assert tables.storable("\ud800") == "\\ud800"
    text = "\n".join(faults(store))
    for words in (
        f"run {runs[0].id}: its json cannot be read",
        f"run {runs[1].id}: its json is not what was added",
        f"run {runs[1].id}: none of its files has its digest",
        f"run {runs[2].id}: it has 0 readings",
        f"run {runs[3].id}: its file is missing",
    ):
        assert words in text
