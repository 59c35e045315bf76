# SPDX-License-Identifier: Apache-2.0
"""Runs whose files the program names (--results): the names, what is incomplete, and how it is continued."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from built_program import QUICKLY, TINY, Run

_FOUR = (*TINY[:5], *QUICKLY)


def _cut(journal: Path, lines: int) -> str:
    """As a kill leaves it: without its last cases. Returns the whole text."""
    whole = journal.read_text()
    journal.write_text("".join(whole.splitlines(keepends=True)[:-lines]))
    return whole


def _names(journal: str) -> list[str]:
    return [json.loads(line)["name"] for line in journal.splitlines()[1:]]


def test_files_are_named_after_time_and_host_and_listed(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "some/results"
    done = run(*_FOUR, f"--results={folder}")
    assert done.returncode == 0, done.stderr
    out, journal = sorted(folder.iterdir(), key=lambda path: len(path.name))
    assert re.fullmatch(r"20\d{6}T\d{6}Z-[\w.-]+\.json", out.name)
    assert journal == out.with_suffix(".journal.jsonl")
    assert done.stdout.endswith(f"\nWritten:\n  {journal}\n  {out}\n")
    assert len(json.loads(out.read_text())["benchmarks"]) == 4
    header = json.loads(journal.read_text().partition("\n")[0])
    assert header["cases"] == 4
    assert header["arguments"] == [*_FOUR, f"--results={folder}"]
    assert "incomplete" not in done.stderr and "--resume" not in done.stderr


def test_the_newest_incomplete_run_continues_with_its_own_flags(run: Run, tmp_path: Path) -> None:
    results = f"--results={tmp_path}"
    assert run(*_FOUR, results).returncode == 0
    (journal,) = tmp_path.glob("*.journal.jsonl")
    out = journal.with_name(journal.name.replace(".journal.jsonl", ".json"))
    whole = _cut(journal, lines=2)
    out.unlink()

    lists = run(results, "--list_axes", "--resume")
    assert lists.returncode == 0 and not out.exists()
    done = run(results, "--resume", f"--written_to={tmp_path}/list")
    assert done.returncode == 0, done.stderr
    assert f"continuing after 2 finished cases of {journal}" in done.stderr
    assert "Written:" not in done.stdout
    assert (tmp_path / "list").read_text() == f"{journal}\n{out}\n"
    assert _names(journal.read_text()) == _names(whole)
    assert len(json.loads(out.read_text())["benchmarks"]) == 4
    again = run(results, "--resume")
    assert (again.returncode, again.stdout) == (2, "")
    assert f"there is no incomplete run to resume in {tmp_path}; without --resume a new run starts" in again.stderr

    # The oldest of three is incomplete: a new run names it, and flags of another run are refused.
    _cut(journal, lines=1)
    journal.rename(older := tmp_path / "20200101T000000Z-host.journal.jsonl")
    new = run(*_FOUR, results)
    assert f"the run of {older} is incomplete: --resume continues it" in new.stderr
    other = run(results, "--resume", *_FOUR, "--seed=7")
    assert other.returncode == 2
    assert "belongs to another run, with the flags" in other.stderr


def test_a_journal_is_next_to_given_results_and_continues_with_their_name(run: Run, tmp_path: Path) -> None:
    out, folder = tmp_path / "mine.json", tmp_path / "results"
    assert run(*_FOUR, f"--results={folder}", f"--benchmark_out={out}").returncode == 0
    journal = tmp_path / "mine.journal.jsonl"
    whole = _cut(journal, lines=3)
    done = run("--resume", f"--benchmark_out={out}", "--case_timeout=50")
    assert done.returncode == 0, done.stderr
    assert _names(journal.read_text()) == _names(whole)
    assert done.stdout.endswith(f"\nWritten:\n  {journal}\n  {out}\n")
    assert not folder.exists()
    journal.unlink()
    lost = run("--resume", f"--benchmark_out={out}")
    assert lost.returncode == 2
    assert f"{journal}, next to --benchmark_out, is not one; without --resume a new run starts" in lost.stderr


def test_a_journal_alone_says_how_its_run_continues(run: Run, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    assert run(*_FOUR, f"--journal={journal}").returncode == 0
    whole = _cut(journal, lines=1)
    done = run(f"--journal={journal}", "--resume")
    assert done.returncode == 0, done.stderr
    assert "Written:" not in done.stdout, "as always without --results"
    assert _names(journal.read_text()) == _names(whole)


@pytest.mark.parametrize(
    ("flag", "continues"),
    [("--results={0}", "--resume"), ("--journal={0}/a.journal.jsonl", "--resume --journal={0}/a.journal.jsonl")],
)
def test_an_interrupted_run_says_how_to_continue(flag: str, continues: str, program: Path, tmp_path: Path) -> None:
    flags = [*_FOUR, "--benchmark_repetitions=500", flag.format(tmp_path)]
    with subprocess.Popen(
        [program, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            if any(len(path.read_text().splitlines()) > 3 for path in tmp_path.glob("*.journal.jsonl")):
                break
            time.sleep(0.05)
        process.terminate()
        stdout, stderr = process.communicate(timeout=600)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 128 + signal.SIGTERM
    assert stderr.endswith(f"not all cases have run: {continues.format(tmp_path)} continues after the last one\n")
    assert stdout.count("\nWritten:\n") == flag.startswith("--results")


@pytest.mark.parametrize("query", ["--list_axes", "--describe=json", "--benchmark_list_tests=true", "--version"])
def test_questions_write_nothing(run: Run, tmp_path: Path, query: str) -> None:
    done = run(f"--results={tmp_path / 'results'}", query)
    assert done.returncode == 0 and "Written" not in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_device_gets_no_files_next_to_it(run: Run, tmp_path: Path) -> None:
    listed = tmp_path / "list"
    done = run(*_FOUR, f"--results={tmp_path}", "--benchmark_out=/dev/null", f"--written_to={listed}")
    assert done.returncode == 0, done.stderr
    assert listed.read_text() == ""
    assert list(tmp_path.iterdir()) == [listed]
    assert not list(Path("/dev").glob("null?*"))


def test_a_folder_that_cannot_be_made_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(*_FOUR, f"--results={tmp_path}/file/results")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot make the folder {tmp_path}/file/results: Not a directory" in done.stderr
    assert "--benchmark_out=FILE" in done.stderr
