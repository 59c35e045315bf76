# SPDX-License-Identifier: Apache-2.0
"""tools/report history, as it is typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from builders import GEMV, HOSTILE, MATMUL, document, error_row, journal_text, row, scaled, write_json
from roofreport.cli import main
from roofreport.history.export import FORMATS


class Command:
    """`tools/report history …` on one store."""

    def __init__(self, where: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._where = where
        self._capsys = capsys

    def __call__(self, *arguments: object, status: int = 0) -> str:
        """Runs the verb, checks its exit status, and returns its standard output."""
        assert main(["history", *map(str, arguments), f"--store={self._where}"]) == status
        seen = self._capsys.readouterr()
        self.error = seen.err
        return seen.out


@pytest.fixture
def history(where: str, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(where, capsys)


def _nights(folder: Path, count: int) -> list[Path]:
    return [
        write_json(folder / f"{day}.json", scaled(1 + 0.1 * day), date=f"2026-01-0{day}T02:00:00Z")
        for day in range(1, count + 1)
    ]


def test_runs_are_added_listed_and_shown(history: Command, tmp_path: Path) -> None:
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


def test_a_folder_holds_results_and_their_journals(history: Command, tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text(journal_text())
    (tmp_path / "1.json").write_text(json.dumps(document()))
    added = history("add", tmp_path / "1.jsonl", tmp_path / "1.json")
    assert "now with what this file tells besides" in added or added.count("run 1") == 1
    assert history("list").count("\n") == 3


def test_a_new_machine_is_said(history: Command, tmp_path: Path) -> None:
    history("add", *_nights(tmp_path, 1))
    history("add", write_json(tmp_path / "new.json", device="New CPU"))
    assert "New CPU, 2 threads is a machine that was not seen before" in history.error
    history("add", write_json(tmp_path / "newer.json", date="2026-01-05", device="New CPU", torch_version="3"))
    assert "with it begin new series" in history.error


def test_what_cannot_be_added_does_not_keep_the_rest_out(history: Command, tmp_path: Path) -> None:
    bad = tmp_path / "0.json"
    bad.write_text("{}")
    good = write_json(tmp_path / "1.json")
    assert main(["history", "add", str(bad), str(good), f"--store={history._where}"]) == 2
    assert "1.json" in history("list")


def test_old_runs_are_pruned(history: Command, tmp_path: Path) -> None:
    history("add", *_nights(tmp_path, 3))
    assert "2 runs would be gone" in history("prune", "--before=2026-01-03", "--dry-run")
    assert history("list").count("2026-01") == 3
    assert "2 runs are gone" in history("prune", "--before=2026-01-03")
    assert "1 runs are gone" in history("prune", "--run=3")
    assert history("verify") == "0 runs, 0 faults\n"
    assert main(["history", "prune", "--run=3", f"--store={history._where}"]) == 2


def test_damage_is_an_alarm(history: Command, where: str, tmp_path: Path) -> None:
    from roofreport.history import tables
    from roofreport.history.store import open_store
    from sqlalchemy import delete

    history("add", *_nights(tmp_path, 2))
    assert history("verify") == "2 runs, 0 faults\n"
    with open_store(where) as store, store.database.writing() as connection:
        connection.execute(delete(tables.documents).where(tables.documents.c.run_id == 1))
    assert "run 1: its file is missing\n2 runs, 1 faults" in history("verify", status=1)


def test_a_history_moves_to_another_database(history: Command, tmp_path: Path) -> None:
    history("add", *_nights(tmp_path, 2))
    target = tmp_path / "other.db"
    assert history("migrate", f"--to={target}") == "2 of 2 runs are new there\n"
    assert history("migrate", f"--to={target}") == "0 of 2 runs are new there\n"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written(name: str, history: Command, tmp_path: Path) -> None:
    history("add", *_nights(tmp_path, 1))
    out = tmp_path / "out"
    assert history("export", f"--format={name}", f"--output={out}") == ""
    assert out.stat().st_size > 100


def test_exports_that_make_no_sense_are_refused(
    history: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history("add", *_nights(tmp_path, 1))
    for flags, why in (
        (["--format=parquet"], "is not text"),
        (["--format=gpt-fast", "--last=2"], "no place for dates"),
    ):
        assert main(["history", "export", *flags, f"--store={history._where}"]) == 2
        assert why in capsys.readouterr().err


def test_words_of_strangers_are_words(history: Command, tmp_path: Path) -> None:
    rows = [*(row(name, 1.0) for name in HOSTILE), error_row("a/n:1", "failed: \x1b[2J<b>")]
    context = {"device": "CPU \x1b[31m\u202eevil", "roofbench_revision": "\x1b[2J<img>", "torch_version": "=1+1"}
    path = write_json(tmp_path / "1.json", rows, date="2026-01-01T02:00:00Z", **context)
    seen = history("add", path) + history.error + history("list") + history("list", "--series") + history("show", "*")
    assert "\x1b" not in seen
    assert "\u202e" not in seen
    assert HOSTILE[0] in seen


def test_nothing_heavy_is_imported_for_other_verbs() -> None:
    import subprocess

    code = (
        "import sys; sys.path.insert(0, 'tools'); from roofreport import cli\n"
        "try: cli.main(['history', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(name for name in ('sqlalchemy', 'pyarrow', 'psycopg', 'numpy') if name in sys.modules))"
    )
    from builders import ROOT

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
