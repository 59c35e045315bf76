# SPDX-License-Identifier: Apache-2.0
"""Closed streams, full disks, damaged journals, untrusted names and several runs at once: each is handled or refused
with a reason, and existing data is not lost. (tests/benchmarks/refusals_test.cc has the table of refusals.)"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from built_program import QUICKLY, ROOT, TINY, Run

FLAGS = (*TINY, "--threads=1")


def shell(command: str, program: Path, *flags: str, folder: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """`command` with "$@" for the program and its flags."""
    return subprocess.run(
        ["bash", "-c", command, "bash", program, *flags], capture_output=True, timeout=600, check=False, cwd=folder
    )


def results(out: Path) -> list[str]:
    return [row["name"] for row in json.loads(out.read_bytes())["benchmarks"]]


def test_a_full_disk_at_the_end_keeps_the_journal(run: Run, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    flags = (*FLAGS, f"--journal={journal}")
    done = run(*flags, "--benchmark_out=/dev/full")
    assert done.returncode == 1
    assert "cannot write /dev/full: No space left on device (make room" in done.stderr
    assert f"{journal} has every case: --journal={journal} --resume writes the rest" in done.stderr
    assert len(journal.read_text().splitlines()) == 5
    assert run(f"--journal={journal}", f"--benchmark_out={tmp_path}/out.json", "--resume").returncode == 0
    assert len(results(tmp_path / "out.json")) == 4


def test_a_file_that_cannot_grow_keeps_whole_lines(program: Path, run: Run, tmp_path: Path) -> None:
    journal, out = tmp_path / "run.jsonl", tmp_path / "out.json"
    flags = (*FLAGS, "--benchmark_repetitions=20", f"--journal={journal}")
    done = shell('ulimit -f 48; exec "$@"', program, *flags)
    assert done.returncode == 1, done.stderr
    said = done.stderr.decode()
    assert f"cannot write {journal}: File too large (raise the limit on the size of files: ulimit -f)" in said
    assert "the run continues, but lines from" in said, "at once, and not at the end alone"
    assert journal.read_text().endswith("\n"), "no half line"
    kept = [json.loads(line) for line in journal.read_text().splitlines()][1:]
    assert 0 < len(kept) < 80
    resumed = run(*flags, "--resume", f"--benchmark_out={out}")
    assert resumed.returncode == 0, resumed.stderr
    assert f"continuing after {len(kept)} finished case{'' if len(kept) == 1 else 's'} of " in resumed.stderr
    assert len(journal.read_text().splitlines()) == 81


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_become_files_of_the_run(program: Path, tmp_path: Path, closed: str) -> None:
    out, journal, tokens = tmp_path / "out.json", tmp_path / "run.jsonl", tmp_path / "tokens"
    outputs = (f"--benchmark_out={out}", f"--journal={journal}", f"--tokens_out={tokens}")
    done = shell(f'exec "$@" {closed}', program, *FLAGS, *outputs)
    assert done.returncode == 0, done.stderr
    assert len(results(out)) == 4
    assert len([json.loads(line) for line in journal.read_text().splitlines()]) == 5
    assert tokens.read_text() == ""


DELETED = "the working folder has been deleted: change to one that exists (cd)"


@pytest.mark.parametrize("flags", [FLAGS, ("--version",)])
def test_a_deleted_working_folder_is_named_by_the_program(
    program: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """Before a library says that it cannot be loaded, and ends the process."""
    done = shell('mkdir gone && cd gone && rmdir ../gone && exec "$@"', program, *flags, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"roofbench: {DELETED}\n")


@pytest.mark.parametrize("tool", ["python", "report", "roofreport"])
def test_a_deleted_working_folder_is_named_by_the_tools(tmp_path: Path, tool: str) -> None:
    """The shell of tools/report says something of its own before."""
    result = str(ROOT / "results" / "atlas" / "epyc-zen4-2-cores.jsonl")
    paths = f"{ROOT / 'python/src'}:{ROOT / 'tools'}"
    command = {
        "python": [sys.executable, "-m", "roofbench", "run", "families.py"],
        "report": [str(ROOT / "tools/report"), "table", result],
        "roofreport": [sys.executable, "-m", "roofreport", "table", result],
    }[tool]
    gone = f'export PYTHONPATH={shlex.quote(paths)}; mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(["bash", "-c", gone, "bash", *command], capture_output=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines()[-1].endswith(f": {DELETED}")
    assert b"Traceback" not in done.stderr


def test_a_small_stack_is_raised_or_named(program: Path) -> None:
    """A soft limit is raised; so is a hard one where that is permitted."""
    for limit in ("-S -s 64", "-s 64"):
        done = shell(f'ulimit {limit} && exec "$@"', program, *FLAGS)
        if done.returncode == 2:
            assert limit == "-s 64"
            assert b"raise the limit (ulimit -s 8192)" in done.stderr
        else:
            assert done.returncode == 0, done.stderr
            assert done.stdout.count(b"\n  impl:") == 4


@pytest.mark.parametrize("question", ["--help", "--list_axes", "--describe=json", "--benchmark_list_tests"])
def test_an_answer_that_could_not_be_written_is_a_failure(program: Path, question: str) -> None:
    done = shell('exec "$@" >/dev/full', program, question)
    assert done.returncode == 1
    assert b"cannot write to standard output" in done.stderr


def test_names_are_escaped(program: Path, tmp_path: Path) -> None:
    """In the result, the program's own folder, whose name is not UTF-8; on the console, the folder of a checkpoint and
    the description in its config.json."""
    folder = tmp_path / os.fsdecode(b"caf\xe9\x1b[31m")
    folder.mkdir()
    (folder / "roofbench").symlink_to(program)
    (folder / "config.json").write_text('{"model_type": "\\u001b[31mred"}')
    out = tmp_path / "out.json"
    command: list[str | Path] = [folder / "roofbench", *FLAGS, f"--benchmark_out={out}"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())["context"]["executable"].endswith(r"/caf\xe9\x1b[31m/roofbench")
    chosen = ("--benchmark_filter=^generate/model:checkpoint/precision:int8/", "--axis=generate.model=checkpoint")
    command = [program, *FLAGS, f"--checkpoint={folder}", *chosen]
    done = subprocess.run(command, capture_output=True, check=False, timeout=600)
    assert b"\\x1b[31mred" in done.stdout + done.stderr
    assert b"\x1b" not in done.stdout + done.stderr


def test_a_compiled_package_of_another_user_is_refused(program: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("chown needs root")
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nwhile [ "$1" != --output ]; do shift; done\ntouch "$2"\n')
    python.chmod(0o755)
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "ROOFBENCH_PYTHON": str(python)}
    command: list[str | Path] = [
        program,
        "--benchmark_filter=^softmax/impl:compiled/.*d:4096",
        "--suite=standard",
        *QUICKLY,
    ]

    def reason() -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        return " ".join(done.stdout.split())

    assert "cannot be loaded" in reason(), "the empty package of this user is opened"
    (package,) = (tmp_path / "roofbench" / "compiled").glob("*.pt2")
    os.chown(package, 65534, 65534)
    assert f"{package} belongs to another user" in reason()


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path) -> None:
    """No tool imports them, not even from PYTHONPATH."""
    for module in ("argparse", "json", "runpy", "jsonschema", "roofreport", "tempfile", "dataclasses", "torch"):
        (tmp_path / f"{module}.py").write_text(
            f"open({str(tmp_path / 'planted')!r}, 'w').close()\nraise SystemExit(7)\n"
        )
    environment = {**os.environ, "ROOFBENCH_PEERS_PYTHON": str(ROOT / ".venv/bin/python"), "PYTHONPATH": str(tmp_path)}
    result = ROOT / "results" / "atlas" / "epyc-zen4-2-cores.jsonl"
    helps = ("error_rate", "peers", "published", "nsys", "tokens", "generate_docs", "gpu_check")
    for tool in (f"report table {result}", *(f"{name} --help" for name in helps)):
        command: list[str | Path] = [ROOT / "tools" / tool.split()[0], *tool.split()[1:]]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout
    assert not (tmp_path / "planted").exists()


def test_standard_output_is_not_a_result_file_as_well(program: Path, tmp_path: Path) -> None:
    for path in ("/dev/stdout", str(tmp_path / "out.json")):
        done = shell(f'exec "$@" >{shlex.quote(str(tmp_path))}/out.json', program, *FLAGS, f"--benchmark_out={path}")
        assert done.returncode == 2
        assert b"is the file that standard output goes to" in done.stderr


def test_one_of_many_continues_a_journal(program: Path, tmp_path: Path) -> None:
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
        refused = process.returncode == 2 and "is being written by another roofbench" in text
        assert process.returncode == 0 or refused, text
    names = [(line["name"], line["repetition"]) for line in map(json.loads, journal.read_text().splitlines()[1:])]
    assert len(names) == len(set(names)), "two ran at once"
    assert len(names) == 200
    assert 0 in [process.returncode for process in started]
