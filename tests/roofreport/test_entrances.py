# SPDX-License-Identifier: Apache-2.0
"""Text that acts becomes inert where it enters: in results, histories, other files, arguments and errors. What shows it
needs no care.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import builders
from roofreport.compare import abba, command, saved_state
from roofreport.errors import UnusableInputError
from roofreport.history import tables
from roofreport.history.record import of_file
from roofreport.history.store import open_store
from roofreport.io import profile
from roofreport.io.load import load
from roofreport.verbs.gate import VERBS

ACTS = "".join(builders.ACTING)


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, but for paths."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for pair in value.items() for part in pair for text in _texts(part))
    elif isinstance(value, (list, tuple, set)):
        yield from (text for one in value for text in _texts(one))
    elif is_dataclass(value) and not isinstance(value, Enum):
        yield from (text for one in fields(value) for text in _texts(getattr(value, one.name)))


def _check(value: Any, least: int) -> None:
    """No text in it acts, and in so many of them at least it did."""
    found = list(_texts(value))
    assert not [text for text in found if any(not one.isprintable() and one != "\ufffe" for one in text)]
    assert sum("\\x1b[31mb" in text for text in found) >= least


def _contract() -> dict[str, Any]:
    return builders.contract(builders.family("matmul", builders.axis("n", default=ACTS, role=ACTS[:90])))


def test_a_result(tmp_path: Path) -> None:
    rows = [builders.row("matmul/n:1", 1.0, label=ACTS), builders.error_row("matmul/n:2", f"skipped: {ACTS}")]
    text = json.dumps(_contract())
    path = builders.write_json(
        tmp_path / "a.json", rows, **{"device": ACTS, ACTS: ACTS, "host_name": ACTS}, contract=text
    )
    result = load(path)
    _check(result, 8)
    assert result.contract.families["matmul"].axes[0].default == result.context["device"]
    assert result.cases[1].why_not.startswith("skipped: a\\x1b")


def test_a_journal(tmp_path: Path) -> None:
    header = builders.header(device=ACTS) | {"contract": _contract()}
    lines = (
        builders.line("matmul/n:1", 1.0, stop=ACTS),
        {**builders.line("b/n:1", 1.0), "verdict": "failed", "reason": ACTS},
    )
    (tmp_path / "a.jsonl").write_text(builders.journal_text(header, *lines))
    _check(load(tmp_path / "a.jsonl"), 5)


def test_a_history_that_another_program_wrote(tmp_path: Path) -> None:
    where = tmp_path / "history.db"
    with open_store(str(where), create=True) as store:
        store.add(of_file(builders.write_json(tmp_path / "a.json")))
        store.accept(builders.MATMUL, store.runs()[0].started, "why")
        store.accept(builders.MATMUL, store.runs()[0].started, "why", kind="profile")
    # A lone surrogate is in no database.
    acts = ACTS.replace("\ud800", "").replace("\0", "")
    facts = json.dumps({ACTS: ACTS})
    with closing(sqlite3.connect(where)) as database, database:
        for table in (tables.machines, tables.toolchains):
            database.execute(f"UPDATE {table.name} SET label = ?, facts = ?", (acts, facts))
        database.execute(f"UPDATE {tables.runs.name} SET context = ?, name = ?, revision = ?", (facts, acts, acts))
        database.execute(f"UPDATE {tables.cases.name} SET name = ? || id", (acts,))
        database.execute(f"UPDATE {tables.readings.name} SET reason = ?", (acts,))
        (names,) = database.execute(f"SELECT names FROM {tables.layouts.name}").fetchone()
        database.execute(
            f"UPDATE {tables.layouts.name} SET names = ? WHERE names = ?",
            (json.dumps([ACTS, *json.loads(names)[1:]]), names),
        )
        database.execute(f"UPDATE {tables.remarks.name} SET why = ?, pattern = ?", (acts, acts))
    with open_store(str(where)) as store:
        history = store.history("time")
        accepted, kept = store.annotations()
        _check([store.runs(), list(history.items()), accepted], 30)
        assert [one for one in _texts(list(next(iter(history.values()))[0].counters)) if "\\x1b" in one]
        # A profile has lines.
        assert kept.why.count("\n") == 1 and "\x1b" not in kept.why
        (series, readings), *_ = history.items()
        assert store.readings(series) == readings, "a series is found by the name that it is read with"


def test_a_profile(tmp_path: Path) -> None:
    written = builders.profile(ACTS, 1.0)
    written["kernels"][0]["name"] = ACTS
    (tmp_path / "a.json").write_text(json.dumps(written))
    _check(profile.load(tmp_path), 2)


def test_the_output_of_a_program(tmp_path: Path) -> None:
    script = tmp_path / "program"
    script.write_text("#!/bin/sh\nprintf 'a\\033[31mb/n:1\\n'\nprintf 'no\\033[31mb\\n' >&2\nexit $status\n")
    script.chmod(0o755)
    program = command.parse(str(script))
    _check(program.cases(), 1)
    finished = command.run(program, tmp_path / "out.json")
    assert finished.result is None
    _check(finished.how, 1)


def test_the_state_of_a_comparison(tmp_path: Path) -> None:
    saved_state.save(
        tmp_path / "state.json", abba.ComparisonState("key", ["a"], 1.0, 1, closed={"a": ["MISSING", ACTS]})
    )
    _check(saved_state.restore(tmp_path / "state.json", abba.ComparisonState), 1)


def test_an_error_may_quote_anything() -> None:
    _check(str(UnusableInputError(f"{ACTS}: why")), 1)
    long = str(UnusableInputError(f"{'x' * 10_000_000}: why"))
    assert len(long) < 5000 and long.endswith(": why")


def test_arguments_that_are_kept() -> None:
    parser = argparse.ArgumentParser()
    VERBS["accept"].add_arguments(parser)
    args = parser.parse_args([ACTS, f"--why={ACTS}", "--since=2026-01-01"])
    _check([args.series, args.why], 2)
