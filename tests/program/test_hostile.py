# SPDX-License-Identifier: Apache-2.0
"""Closed streams, small limits, shared files and untrusted names: no data is lost, and no code is run."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from built_program import ROOT, TINY, Run

FLAGS = (*TINY, "--threads=1")


def shell(command: str, program: Path, *flags: str, folder: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """`command` with "$@" for the program and its flags."""
    return subprocess.run(
        ["bash", "-c", command, "bash", program, *flags], capture_output=True, timeout=600, check=False, cwd=folder
    )


def results(out: Path) -> list[str]:
    return [row["name"] for row in json.loads(out.read_bytes())["benchmarks"]]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_files_of_the_run(program: Path, tmp_path: Path, closed: str) -> None:
    out, journal, tokens = tmp_path / "out.json", tmp_path / "run.jsonl", tmp_path / "tokens"
    outputs = (f"--benchmark_out={out}", f"--journal={journal}", f"--tokens_out={tokens}")
    done = shell(f'exec "$@" {closed}', program, *FLAGS, *outputs)
    assert done.returncode == 0, done.stderr
    assert len(results(out)) == 4
    assert len([json.loads(line) for line in journal.read_text().splitlines()]) == 5
    assert tokens.read_text() == ""


@pytest.mark.parametrize("question", ["--help", "--list_axes", "--describe=json", "--benchmark_list_tests"])
def test_an_answer_that_could_not_be_written_is_a_failure(program: Path, question: str) -> None:
    done = shell('exec "$@" >/dev/full', program, question)
    assert done.returncode == 1
    assert b"cannot write to standard output" in done.stderr


def test_a_limit_on_file_sizes_is_told(program: Path, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    done = shell('ulimit -f 48; exec "$@"', program, *FLAGS, "--benchmark_repetitions=20", f"--journal={journal}")
    assert done.returncode == 1, done.stderr
    said = done.stderr.decode()
    assert f"cannot write {journal}: File too large (raise the limit on the size of files: ulimit -f)" in said
    assert "the run continues, but lines from" in said
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert 1 < len(lines) < 81, "whole lines, as many as there was room for"


def test_two_runs_with_one_result_file(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    flags = [str(program), *FLAGS, f"--benchmark_out={out}"]
    both = [subprocess.Popen(flags, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    for process in both:
        _, stderr = process.communicate(timeout=600)
        assert process.returncode == 0, stderr
    assert len(results(out)) == 4
    assert len(results(tmp_path / "out.comparable.json")) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.comparable.json", "out.json"]


def test_a_folder_that_is_no_utf8_leaves_the_result_readable(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9\x1b[31m")
    folder.mkdir()
    link = folder / "roofbench"
    link.symlink_to(program)
    out = tmp_path / "out.json"
    done = subprocess.run([link, *FLAGS, f"--benchmark_out={out}"], capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    executable = json.loads(out.read_text())["context"]["executable"]
    assert executable.endswith(r"/caf\xe9\x1b[31m/roofbench")
    assert subprocess.run([ROOT / "tools/report", "table", out], capture_output=True, check=False).returncode == 0


def test_names_of_strangers_are_escaped_on_the_console(program: Path, tmp_path: Path) -> None:
    """The folder of a checkpoint, and the description in its config.json."""
    folder = tmp_path / "\x1b]0;title\x07"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "\\u001b[31mred"}')
    chosen = ("--benchmark_filter=^generate/model:checkpoint/precision:int8/", "--axis=generate.model=checkpoint")
    done = subprocess.run(
        [program, *FLAGS, f"--checkpoint={folder}", *chosen], capture_output=True, check=False, timeout=600
    )
    assert b"\\x1b[31mred" in done.stdout + done.stderr
    assert b"\x1b" not in done.stdout + done.stderr


def test_the_context_is_in_the_result(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert run(*FLAGS, f"--benchmark_out={out}", "--benchmark_context=rack=7,note=a=b").returncode == 0
    context = json.loads(out.read_text())["context"]
    assert (context["rack"], context["note"]) == ("7", "a=b")


def test_standard_output_is_no_output_file_as_well(program: Path, tmp_path: Path) -> None:
    for path in ("/dev/stdout", str(tmp_path / "out.json")):
        done = shell(f'exec "$@" >{shlex.quote(str(tmp_path))}/out.json', program, *FLAGS, f"--benchmark_out={path}")
        assert done.returncode == 2
        assert b"is the file that standard output goes to" in done.stderr


def test_modules_of_the_current_folder_are_not_run(run: Run, tmp_path: Path) -> None:
    """Modules in the working folder are imported neither by tools/report, nor by the other tools that start in the same
    way.
    """
    out = tmp_path / "out.json"
    assert run(*FLAGS, f"--benchmark_out={out}").returncode == 0
    for module in ("argparse", "json", "runpy", "jsonschema", "roofreport", "tempfile", "dataclasses", "torch"):
        (tmp_path / f"{module}.py").write_text(
            f"open({str(tmp_path / 'planted')!r}, 'w').close()\nraise SystemExit(7)\n"
        )
    for tool, *study in (("report",), ("study", "error_rate"), ("peers",), ("published",)):
        done = subprocess.run(
            [ROOT / "tools" / tool, *study, "--help"],
            cwd=tmp_path,
            env={**os.environ, "ROOFBENCH_PEERS_PYTHON": str(ROOT / ".venv/bin/python"), "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "usage: " in done.stdout
    table = subprocess.run([ROOT / "tools/report", "table", out], cwd=tmp_path, capture_output=True, check=False)
    assert table.returncode == 0, table.stderr
    assert not (tmp_path / "planted").exists()


def test_a_journal_is_gone_on_with_by_one_of_many(program: Path, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    flags = [str(program), *FLAGS, "--benchmark_repetitions=50", f"--journal={journal}"]
    first = subprocess.Popen(flags, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    while not (journal.exists() and journal.read_text().count("\n") > 2):
        assert first.poll() is None
        time.sleep(0.001)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate(timeout=600)  # the process of its cases, too, which writes the journal, has closed the pipe
    with journal.open("a") as file:
        file.write('{"name": "cut')
    started = [
        subprocess.Popen([*flags, "--resume"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [process.communicate(timeout=600)[1] for process in started]
    for process, text in zip(started, said, strict=True):
        # The others wait for it, and continue after its last line or give up.
        assert process.returncode == 0 or "is being written by another roofbench" in text
    names = [(line["name"], line["repetition"]) for line in map(json.loads, journal.read_text().splitlines()[1:])]
    assert len(names) == len(set(names)), "two ran at once"
    assert len(names) == 200
    assert 0 in [process.returncode for process in started]
