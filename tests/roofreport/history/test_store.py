# SPDX-License-Identifier: Apache-2.0
"""A history in both databases: each added run is there once, whole, and in its series."""

from __future__ import annotations

import json
import os
import random
import string
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from builders import GEMV, MATMUL, TIMES, error_row, header, journal_text, line, row, scaled, write_json
from roofreport.history.keeping import faults
from roofreport.history.record import of_file
from roofreport.history.store import Store
from roofreport.io.load import load
from roofreport.io.result import State


def _date(day: int) -> str:
    return f"2026-01-{day:02d}T02:00:00+00:00"


def _night(folder: Path, day: int, factor: float = 1.0, **context: str) -> Path:
    return write_json(folder / f"{day}.json", scaled(factor), date=_date(day), **context)


def _journal(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text(journal_text(*lines))
    return path


def _record(path: Path, began: str, gemv: float) -> Path:
    return _journal(path, header(started=began), line(GEMV, gemv))


def test_a_run_is_there_once(store: Store, tmp_path: Path) -> None:
    path = _night(tmp_path, 1)
    first, second = store.add(of_file(path)), store.add(of_file(path))
    assert (first.is_new, second.is_new) == (True, False)
    assert first.run == second.run
    assert (first.run.revision, first.run.name, first.cases) == ("abc", "1.json", 3)
    assert first.run.started == datetime(2026, 1, 1, 2, tzinfo=timezone.utc)
    assert [run.id for run in store.runs()] == [first.run.id]


@pytest.mark.parametrize("record_first", [True, False])
def test_a_record_and_the_json_of_its_run_are_one_run(store: Store, tmp_path: Path, record_first: bool) -> None:
    lines = [line(name, time, median_s=float(f"{time / 1e3 / 3:.12g}")) for name, time in TIMES.items()]
    record = _journal(tmp_path / "1.jsonl", header(started=_date(1)), *lines)
    other = write_json(tmp_path / "1.json", scaled(1 / 3), started=_date(1), date="2026-01-01T03:00:00+01:00")
    added = [store.add(of_file(path)) for path in ((record, other) if record_first else (other, record))]
    assert [one.is_new for one in added] == [True, False]
    assert added[1].completed is not record_first
    assert not any(store.add(of_file(path)).completed for path in (other, record))
    (run,) = store.runs()
    assert store.known(of_file(other)) == store.known(of_file(record)) == run
    assert (run.name, store.record(run).text) == (record.name, record.read_text()), "the program's own remains"
    assert (run.started, run.context["started"]) == (datetime(2026, 1, 1, 2, tzinfo=timezone.utc), _date(1))
    details = store.case_details(run)[MATMUL]
    assert (details.samples_s, details.stop) == ([0.01, 0.0101, 0.0099], "converged")
    found = {series.case: reading.value for series, (reading,) in store.history("time").items()}
    assert found == {one["name"]: one["median_s"] for one in lines}
    assert list(faults(store)) == []


def test_the_date_that_a_run_was_given_outlives_its_json(store: Store, tmp_path: Path) -> None:
    given = datetime(2025, 5, 5, tzinfo=timezone.utc)
    for path in (write_json(tmp_path / "1.json"), _journal(tmp_path / "1.jsonl")):
        assert store.add(of_file(path), given if path.suffix == ".json" else None).run.started == given


_SAME_IN_NINE_DIGITS = (1.0000000001, 1.0000000002)


@pytest.mark.parametrize("kind", ["record", "json"])
def test_runs_that_differ_in_the_tenth_digit_are_two(store: Store, tmp_path: Path, kind: str) -> None:
    """As two processes of one second have it, or two records that do not say when they began."""
    for time in _SAME_IN_NINE_DIGITS:
        path = tmp_path / f"{time}.json"
        if kind == "json":
            store.add(of_file(write_json(path, [row(GEMV, time)])))
        else:
            store.add(of_file(_record(path, _date(1), time)))
            store.add(of_file(_record(path, "", time)))
    assert len(store.runs()) == (2 if kind == "json" else 4)
    assert len({reading.value for readings in store.history("time").values() for reading in readings}) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"started": _date(2)},
        {"host_name": "another"},
        {"roofbench_revision": "def"},
        {"command_line": "roofbench --seed=2"},
    ],
)
def test_json_of_another_run_is_another_run(store: Store, tmp_path: Path, other: dict[str, str]) -> None:
    store.add(of_file(_journal(tmp_path / "1.jsonl")))
    assert store.add(of_file(write_json(tmp_path / "1.json", None, **other))).is_new
    assert store.add(of_file(write_json(tmp_path / "2.json", scaled(1.0)[:2]))).is_new, "without one of the cases"
    assert not store.add(of_file(write_json(tmp_path / "3.json", scaled(1.5)))).is_new, (
        "its figures do not tell runs apart"
    )


def test_a_record_does_not_replace_one_of_two_that_it_may_be_of(store: Store, tmp_path: Path) -> None:
    paths = [write_json(tmp_path / f"{factor}.json", scaled(factor)) for factor in (1.0, 1.1)]
    assert all(store.add(of_file(path)).is_new for path in (*paths, _journal(tmp_path / "1.jsonl")))


def test_json_of_any_program_is_kept_as_a_record(store: Store, tmp_path: Path) -> None:
    context = {"date": "2026-01-01T02:00:00+00:00", "host_name": "vm", "library_version": "1.9", "num_cpus": 2}
    rows = [row("BM_Sort/8", 1 / 3, items_per_second=1e9 / 7), error_row("BM_Sort/9", "too large")]
    path = tmp_path / "1.json"
    path.write_text(json.dumps({"context": context, "benchmarks": rows}))
    run = store.add(of_file(path)).run
    kept, written = store.record(run), load(path)
    assert [json.loads(line).get("name", "") for line in kept.text.splitlines()] == ["", "BM_Sort/8", "BM_Sort/9"]
    assert replace(kept.result, path=path) == written, "every figure is exactly that of the JSON"
    assert kept.result.cases[0].seconds == 1 / 3 * 1e-3
    assert not store.add(of_file(path)).is_new
    assert (run.started, run.context) == (datetime(2026, 1, 1, 2, tzinfo=timezone.utc), kept.result.context)


def test_json_of_any_program_begins_a_series_on_another_machine(store: Store, tmp_path: Path) -> None:
    caches = [
        {"type": "Data", "level": 1, "size": 49152, "num_sharing": 1},
        {"type": "Instruction", "level": 1, "size": 32768, "num_sharing": 1},
        {"type": "Unified", "level": 3, "size": 1 << 25, "num_sharing": 2},
    ]
    machines = []
    for number, (count, mhz) in enumerate([(2, 3000), (2, 2400), (64, 2400)]):
        context = {"date": f"2026-01-0{number + 1}T02:00:00+00:00", "num_cpus": count, "mhz_per_cpu": mhz}
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"context": context | {"caches": caches}, "benchmarks": [row("BM_Sort/8", 1.0)]}))
        machines.append(store.add(of_file(path)).run.machine)
    assert machines[0].id == machines[1].id != machines[2].id
    assert machines[2].label == "64 processors, L1 48 KiB per 1, L3 32768 KiB per 2"


def test_a_record_comes_back_byte_for_byte(store: Store, tmp_path: Path) -> None:
    path = _journal(tmp_path / "1.jsonl")
    run = store.add(of_file(path)).run
    assert store.record(run).text == path.read_text()
    assert run.context["device"] == "Test CPU"


def test_a_record_without_a_date_is_as_old_as_its_file(store: Store, tmp_path: Path) -> None:
    path = _record(tmp_path / "1.jsonl", "", 1.0)
    os.utime(path, (1e9, 1e9))
    assert store.add(of_file(path)).run.started == datetime(2001, 9, 9, 1, 46, 40, tzinfo=timezone.utc)
    assert store.add(of_file(write_json(tmp_path / "1.json", [row(GEMV, 1.0)]))).is_new, (
        "nothing says that it is its run"
    )


def test_history_is_oldest_first_whatever_came_first(store: Store, tmp_path: Path) -> None:
    for day in (3, 1, 2):
        store.add(of_file(_night(tmp_path, day, factor=day)))
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
    store.add(of_file(write_json(tmp_path / "1.json", rows)))
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
        store.add(of_file(path))
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
    store.add(of_file(_night(tmp_path, 1)))
    before = {series.key for series in store.series()}
    added = store.add(of_file(_night(tmp_path, 2, 1.0, **changed)))
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
