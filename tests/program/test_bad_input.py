# SPDX-License-Identifier: Apache-2.0
"""Bad flags, journals, full disks and a missing LibTorch are refused with a reason, the name of the cause and a remedy,
and existing data is not lost.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from built_program import TINY, Run


def assert_refused(done: subprocess.CompletedProcess[str], says: tuple[str, ...]) -> None:
    assert done.returncode == 2, done.stderr
    for text in says:
        assert text in done.stderr
    assert re.search(r"^roofbench: \S", done.stderr, re.MULTILINE), "who speaks is said"
    assert len(done.stderr.splitlines()) <= 2, "a refusal is a line, not a page"
    assert "\x1b" not in done.stderr


# A few of the table in tests/benchmarks/refusals_test.cc, by the program itself.
@pytest.mark.parametrize(
    ("flags", "environment", "says"),
    [
        (["--benchmark_filer=x"], {}, ("--benchmark_filer", "did you mean --benchmark_filter?")),
        (["--benchmark_context=a=\udcff"], {}, ("a=\\xff", "UTF-8")),
        (["--device=cuda:99"], {}, ("--device=cuda:99", "cpu")),
        ([], {"BENCHMARK_REPETITIONS": "\x1b[31m"}, ("--benchmark_repetitions=\\x1b[31m",)),
        (["--journal=/dev/full"], {}, ("/dev/full: No space left on device", "make room")),
    ],
)
def test_a_bad_start_is_refused(
    run: Run, tmp_path: Path, flags: list[str], environment: dict[str, str], says: tuple[str, ...]
) -> None:
    out = tmp_path / "out.json"
    out.write_text("precious")
    done = run(*TINY, f"--benchmark_out={out}", *flags, **environment)
    assert_refused(done, says)
    assert done.stdout == ""
    assert out.read_text() == "precious"


def test_the_flags_of_a_journal_are_its_own(run: Run, tmp_path: Path) -> None:
    journal = f"--journal={tmp_path}/run.jsonl"
    assert run(*TINY, "--threads=1", journal, "--seed=1").returncode == 0
    before = (tmp_path / "run.jsonl").read_bytes()
    done = run(*TINY, "--threads=1", journal, "--seed=2", "--resume")
    assert_refused(done, ("its flags was", "--seed=1", "--seed=2", "another --journal"))
    done = run(*TINY, "--threads=1", journal, "--seed=1", "--allocator=system", "--resume")
    assert_refused(done, ("its flags was", "--allocator=system", "another --journal"))
    done = run(*TINY, "--threads=2", journal, "--seed=1", "--resume")
    assert_refused(done, ("belongs to another run", "another --journal"))
    assert (tmp_path / "run.jsonl").read_bytes() == before


def test_a_damaged_journal_is_refused_and_kept(run: Run, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    flags = (*TINY, "--threads=1", f"--journal={journal}")
    assert run(*flags).returncode == 0
    lines = journal.read_text().splitlines(keepends=True)
    for damaged, said in (
        (lines[0] + lines[1][:-20] + "\n" + lines[2], "damaged in line 2"),
        ("".join(lines[:2]) + lines[1], "twice (line 3)"),
        ("".join(lines[1:]), "is not a journal of roofbench"),
    ):
        journal.write_text(damaged)
        assert_refused(run(*flags, "--resume"), (str(journal), said, "another --journal"))
        assert journal.read_text() == damaged


def test_a_full_disk_at_the_end_keeps_the_journal(run: Run, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    flags = (*TINY, "--threads=1", f"--journal={journal}")
    done = run(*flags, "--benchmark_out=/dev/full")
    assert done.returncode == 1
    assert "cannot write /dev/full: No space left on device (make room" in done.stderr
    assert f"{journal} has every case: the same command with --resume writes the rest" in done.stderr
    assert len(journal.read_text().splitlines()) == 5
    done = run(*flags, f"--benchmark_out={tmp_path}/out.json", "--resume")
    assert done.returncode == 0
    assert len(json.loads((tmp_path / "out.json").read_text())["benchmarks"]) == 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of 48 KiB: a run fits its start."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root and its permission")
    return folder


def test_a_disk_that_fills_up_keeps_what_there_was_room_for(run: Run, tmp_path: Path, small_disk: Path) -> None:
    try:
        journal = small_disk / "run.jsonl"
        flags = (*TINY, "--threads=1", "--benchmark_repetitions=20", f"--journal={journal}")
        done = run(*flags)
        assert done.returncode == 1
        assert f"{journal}: No space left on device (make room" in done.stderr
        assert "the run continues, but lines from" in done.stderr, "at once, and not at the end alone"
        text = journal.read_text()
        assert text.endswith("\n"), "no half line"
        kept = [json.loads(line) for line in text.splitlines()][1:]
        assert 0 < len(kept) < 80
        subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
        done = run(*flags, "--resume", f"--benchmark_out={tmp_path}/out.json")
        assert done.returncode == 0, done.stderr
        assert f"continuing after {len(kept)} finished case(s)" in done.stderr
        assert len(journal.read_text().splitlines()) == 81
    finally:
        subprocess.run(["umount", str(small_disk)], check=True)


def test_a_missing_libtorch_is_named(program: Path, tmp_path: Path) -> None:
    """A copy of the program that looks for LibTorch in a missing folder, as after the move of an environment."""
    copy = tmp_path / "roofbench"
    shutil.copy(program, copy)
    dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\(RUNPATH\).*\[(.*)\]", dynamic)
    assert found, "the program knows where LibTorch is"
    path = found.group(1).encode()
    copy.write_bytes(copy.read_bytes().replace(path, path.replace(b"/lib", b"/li?")))
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run([copy, "--help"], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 127
    assert re.search(r"lib(torch_cpu|c10)\.so: cannot open shared object file", done.stderr)
    # Our code does not run before the loader: tools/bench reports the remedy (tests/tools).
