# SPDX-License-Identifier: Apache-2.0
"""A history in both databases: each added run is there once, whole, and in its series."""

from __future__ import annotations

import random
import string
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from builders import GEMV, MATMUL, error_row, header, journal_text, line, row, scaled, write_json
from roofreport.history.keeping import faults
from roofreport.history.store import Store
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
    assert details.stop == "converged"
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
    (utilization,) = store.series("a100_flop_util", MATMUL)
    assert store.readings(utilization)[0].value == pytest.approx(found[MATMUL][0].counters["a100_flop_util"])


def test_readings(store: Store, tmp_path: Path) -> None:
    """The median of repetitions; a failed case has no value."""
    rows = [row(GEMV, time, repetition) for repetition, time in enumerate((1.0, 5.0, 1.2))]
    rows += [row(MATMUL, 10.0, noisy=1.0), error_row("norm/n:1", "failed: wrong result")]
    store.add_file(write_json(tmp_path / "1.json", rows))
    found = {series.case: readings[0] for series, readings in store.history("time").items()}
    assert found[GEMV].value == pytest.approx(0.0012)
    failed = found["norm/n:1"]
    assert (failed.value, failed.state, failed.reason) == (None, State.FAILED, "wrong result")
    assert (failed.doubt, found[GEMV].doubt, found[MATMUL].doubt) == ("", "", "noisy")
    assert found[MATMUL].reason == ""


def _with_many_names(folder: Path) -> tuple[Path, dict[str, float]]:
    """As long as a result may have them, of characters that nothing compresses."""
    chance = random.Random(1)
    names = {"".join(chance.choices(string.ascii_letters, k=60)): 1.0 for _ in range(150)}
    case = "\N{PILE OF POO}" * 250 + "'\"%s:x;--/n:1"
    return write_json(folder / "1.json", [row(case, 1.0) | names], device=case, roofbench_revision=case), names


def test_names_may_be_long_and_of_any_characters(store: Store, tmp_path: Path) -> None:
    path, names = _with_many_names(tmp_path)
    for _ in range(2):
        store.add_file(path)
    ((series, (reading,)),) = store.history("time").items()
    assert series.case == series.machine.facts["device"] == reading.run.revision
    assert names.items() <= reading.counters.items()
    assert list(faults(store)) == []


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
    since = datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    accepted = store.accept("gemv/*", since, "a new kernel, <b>slower</b>\0 but right")
    store.accept("", since, "moved house", "0123456789ab", kind="note")
    found = store.annotations()
    assert found[0] == accepted
    assert (found[0].since, found[0].kind) == (since, "accepted")
    assert found[0].why == "a new kernel, <b>slower</b>\\x00 but right"
    assert (found[1].pattern, found[1].machine_id, found[1].kind) == ("", "0123456789ab", "note")
