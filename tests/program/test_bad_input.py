# SPDX-License-Identifier: Apache-2.0
"""What may be wrong on the command line, in the environment and on the disk: each is refused with a reason, the thing's
name and a way out, and costs nothing that was there before."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from built_program import TINY, Run

JOURNAL_OF_ANOTHER_RUN = json.dumps(
    {
        "schema": "roofbench-journal-1",
        "context": {"roofbench_version": "0", "device_kind": "cpu", "device": "x"},
        "run": {"program": "0123", "device": "cpu, x", "flags": "--seed=9"},
    }
)


class Bad(NamedTuple):
    """Flags ({tmp} is the test's folder), and what the refusal must say: the thing's name, then the way out."""

    flags: tuple[str, ...]
    says: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def flag(text: str, *says: str) -> Bad:
    return Bad((text,), says)


def environment(name: str, value: str, *says: str) -> Bad:
    return Bad((), says, ((name, value),))


COMMAND_LINES = [
    flag("--unknown", "unknown flag --unknown", "--help=all lists all"),
    flag("--benchmark_filer=x", "--benchmark_filer", "did you mean --benchmark_filter?"),
    flag("--seeds=1", "did you mean --seed?"),
    flag("matmul", "'matmul' is not a flag", "--benchmark_filter"),
    flag("-", "'-' is not a flag"),
    flag("--", "'--' is not a flag"),
    flag("--benchmark_filter=nothing_like_it", "matches no case", "--benchmark_list_tests --suite=full lists all"),
    flag("--benchmark_filter=-.", "matches no case", "lists all"),
    flag("--benchmark_filter=(", "--benchmark_filter=( is not a valid regular expression"),
    flag("--benchmark_filter=[z-a]", "is not a valid regular expression"),
    flag("--benchmark_filter=*x", "is not a valid regular expression"),
    flag("--suite=huge", "--suite=huge", "quick, standard, full"),
    flag("--device=tpu", "--device=tpu", "auto"),
    flag("--device=cuda:x", "--device=cuda:x", "auto"),
    flag("--device=cuda:99", "--device=cuda:99", "cpu"),
    flag("--device=", "--device=", "cpu"),
    flag("--reference=abacus", "--reference=abacus", "a100-sxm4-40gb"),
    flag("--axis=matmul.q=1", "'q'", "dtype"),
    flag("--axis=nobody.n=1", "'nobody'", "matmul"),
    flag("--axis=dtype=fp31", "'fp31'", "bf16"),
    flag("--axis=matmul.n=12x", "'12x'", "whole number"),
    flag("--axis=matmul.n=-5", "'-5'", "whole number"),
    flag("--axis=matmul.n=0", "'0'", "whole number"),
    flag("--axis=matmul.n=99999999999999999999", "'99999999999999999999'", "whole number"),
    flag("--axis=matmul.n=", "--axis=matmul.n=", "expected [family.]name=v1,v2"),
    flag("--axis=n", "--axis=n", "expected [family.]name=v1,v2"),
    flag("--axis", "expected [family.]name=v1,v2"),
    flag("--seed=-1", "--seed=-1"),
    flag("--seed=99999999999999999999", "--seed=99999999999999999999"),
    flag("--threads=-1", "--threads=-1", "from 0 to 4096"),
    flag("--threads=99999", "--threads=99999", "from 0 to 4096"),
    flag("--threads=two", "--threads=two"),
    flag("--threads=4000", "--threads=4000 is above the", "--oversubscribe takes them all the same"),
    flag("--max_time=-1", "--max_time=-1", "from 0 to 86400"),
    flag("--max_time=nan", "--max_time=nan", "from 0 to 86400"),
    flag("--roof_share=-0.1", "--roof_share=-0.1", "from 0 to 0.9"),
    flag("--roof_share=nan", "--roof_share=nan", "from 0 to 0.9"),
    flag("--max_step_time=1e9", "--max_step_time=1e", "from 0 to 86400"),
    flag("--case_timeout=-3", "--case_timeout=-3", "from 0 to 86400"),
    Bad(("--case_timeout=5", "--supervise=false"), ("--case_timeout needs --supervise=true",)),
    flag("--describe=xml", "--describe=xml", "json"),
    flag("--resume", "--resume needs --journal=FILE"),
    flag("--warmup_iters=-2", "--warmup_iters=-2", "from -1"),
    flag("--min_samples=0", "--min_samples=0", "from 1"),
    Bad(("--min_samples=20", "--max_samples=10"), ("--min_samples=20 is above --max_samples=10",)),
    flag("--max_samples=99999999999", "--max_samples=99999999999", "from 1 to"),
    flag("--benchmark_min_time=soon", "--benchmark_min_time=soon", "from 0 to 86400"),
    flag("--benchmark_min_time=0x", "--benchmark_min_time=0x", "20x"),
    flag("--benchmark_repetitions=0", "--benchmark_repetitions=0", "from 1"),
    flag("--benchmark_repetitions=many", "--benchmark_repetitions=many", "from 1"),
    flag("--benchmark_format=xml", "--benchmark_format=xml", "console, json, csv"),
    flag("--benchmark_out_format=xml", "--benchmark_out_format=xml", "json, csv"),
    flag("--benchmark_time_unit=hours", "--benchmark_time_unit=hours", "ns, us, ms, s"),
    flag("-benchmark_repetitions=9", "-benchmark_repetitions=9", "two dashes"),
    flag("--axis=matmul.n=16:64", "16:64", "256:4096:x2"),
    flag("--benchmark_filter=matmull", "matmull", "did you mean 'matmul'"),
    flag("--benchmark_dry_run", "use --benchmark_min_time=1x"),
    flag("--benchmark_color=purple", "--benchmark_color=purple", "auto, true, false"),
    flag("--benchmark_list_tests=maybe", "--benchmark_list_tests=maybe", "true or false"),
    flag("--benchmark_enable_random_interleaving=perhaps", "random_interleaving=perhaps", "true or false"),
    flag("--benchmark_context=a", "--benchmark_context=a", "KEY=VALUE"),
    flag("--benchmark_context=a=\x1b[31mred", "a=\\x1b[31mred", "without control characters"),
    flag("--benchmark_context=a=\udcff", "a=\\xff", "UTF-8"),
    flag("--benchmark_context=date=1", "date is in every result", "another key"),
    flag("--benchmark_filter=" + "(" * 16_000, "not a valid regular expression", "50 parentheses"),
    flag("--benchmark_filter=((x{100}){100}){100}", "not a valid regular expression", "too long"),
    flag("--benchmark_filter=(.*)(.*)(.*)(.*)(.*)(.*)(.*)~$", "matches no case"),
    flag("--check=maybe", "--check=maybe", "on, off"),
    flag("--inject_delay=-1", "--inject_delay=-1", "from 0 to 10"),
    flag("--journal", "--journal needs a value"),
    environment("BENCHMARK_COLOR", "purple", "--benchmark_color=purple", "auto, true, false"),
    environment("BENCHMARK_LIST_TESTS", "maybe", "--benchmark_list_tests=maybe", "true or false"),
    environment("BENCHMARK_CONTEXT", "a", "--benchmark_context=a", "KEY=VALUE"),
    environment("BENCHMARK_MIN_TIME", "soon", "--benchmark_min_time=soon", "from 0 to 86400"),
    environment("BENCHMARK_FILTER", "nothing_like_it", "--benchmark_filter=nothing_like_it matches no case"),
    environment("BENCHMARK_FORMAT", "xml", "--benchmark_format=xml", "console, json, csv"),
    environment("BENCHMARK_REPETITIONS", "-3", "--benchmark_repetitions=-3", "from 1"),
    # Google Benchmark and LibTorch would print these as they are.
    environment("BENCHMARK_REPETITIONS", "\x1b[31m", "--benchmark_repetitions=\\x1b[31m"),
    environment("THP_MEM_ALLOC_ENABLE", "\x1b[31m", "THP_MEM_ALLOC_ENABLE=\\x1b[31m", "expected 1"),
    environment("THP_MEM_ALLOC_ENABLE", "0", "expected 1, as --allocator=tuned has it"),
    Bad(("--fresh_process", "--supervise=false"), ("--fresh_process needs --supervise=true",)),
    flag("--allocator=mine", "--allocator=mine", "tuned, system"),
]


def assert_refused(done: subprocess.CompletedProcess[str], says: tuple[str, ...]) -> None:
    assert done.returncode == 2, done.stderr
    for text in says:
        assert text in done.stderr
    assert re.search(r"^roofbench: \S", done.stderr, re.MULTILINE), "who speaks is said"
    assert len(done.stderr.splitlines()) <= 2, "a refusal is a line, not a page"
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("bad", COMMAND_LINES, ids=lambda bad: " ".join(bad.flags) or "=".join(bad.environment[0]))
def test_a_bad_command_line_is_refused(run: Run, tmp_path: Path, bad: Bad) -> None:
    out = tmp_path / "out.json"
    out.write_text("precious")
    done = run(f"--benchmark_out={out}", *bad.flags, **dict(bad.environment))
    assert_refused(done, bad.says)
    assert done.stdout == ""
    assert out.read_text() == "precious"


FILES = [
    flag("--benchmark_out={tmp}/no/folder/out.json", "{tmp}/no/folder/out.json", "make its folder first"),
    flag("--benchmark_out={tmp}", "cannot write {tmp}: Is a directory", "name a file in it"),
    flag("--benchmark_out={tmp}/precious/out.json", "{tmp}/precious/out.json", "a part of the path is a file"),
    flag("--benchmark_out=/proc/out.json", "/proc/out.json"),
    flag("--journal={tmp}/no/folder/run.jsonl", "{tmp}/no/folder/run.jsonl", "make its folder first"),
    flag("--journal={tmp}", "{tmp}: Is a directory", "name a file in it"),
    flag("--journal=/dev/full", "/dev/full: No space left on device", "make room"),
    flag("--journal={tmp}/precious", "{tmp}/precious is there and is no journal", "remove it"),
    Bad(("--journal={tmp}/precious", "--resume"), ("{tmp}/precious is no journal of roofbench", "another --journal")),
    Bad(
        ("--journal={tmp}/foreign", "--resume"), ("{tmp}/foreign is of another run: its program was '0123'", "--resume")
    ),
    Bad(("--journal={tmp}/other", "--resume"), ("{tmp}/other is no journal of roofbench", "another --journal")),
    Bad(("--journal=/dev/null", "--resume"), ("/dev/null is no plain file", "another --journal")),
    Bad(("--journal={tmp}/bare", "--resume"), ("{tmp}/bare has a damaged header (it has no context)",)),
    *(
        Bad(("--benchmark_out={tmp}/a.json", f"--{other}"), ("{tmp}/a.", "choose another name"))
        for other in (
            "journal={tmp}/a.json",
            "journal={tmp}/./a.json",
            "journal={tmp}/a.json.part",
            "journal={tmp}/a.comparable.json",
            "tokens_out={tmp}/a.json",
            "tokens_out={tmp}/a.comparable.json",
        )
    ),
    Bad(("--benchmark_out={tmp}/j.previous", "--journal={tmp}/j"), ("puts {tmp}/j.previous beside it",)),
    Bad(("--benchmark_out={tmp}/j.previous.3", "--journal={tmp}/j"), ("puts {tmp}/j.previous beside it",)),
    Bad(("--benchmark_context=a=1", "--benchmark_context=a=2"), ("a is in every result, or given twice",)),
    Bad(("--benchmark_context=device=x",), ("device is in every result",)),
    flag("--tokens_out={tmp}/no/out", "{tmp}/no/out", "make its folder first"),
]


@pytest.mark.parametrize("bad", FILES, ids=lambda bad: " ".join(bad.flags))
def test_a_bad_file_is_refused_and_left_alone(run: Run, tmp_path: Path, bad: Bad) -> None:
    contents = {
        "precious": "text\n",
        "foreign": JOURNAL_OF_ANOTHER_RUN + "\n",
        "bare": '{"schema": "roofbench-journal-1", "run": {"program": "0123"}}\n',
        "other": '{"schema": "other-2"}\n',
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    done = run(*TINY, "--threads=1", *(text.format(tmp=tmp_path) for text in bad.flags))
    assert_refused(done, tuple(text.format(tmp=tmp_path) for text in bad.says))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == contents
    assert Path("/dev/null").is_char_device()


def test_the_flags_of_a_journal_are_its_own(run: Run, tmp_path: Path) -> None:
    journal = f"--journal={tmp_path}/run.jsonl"
    assert run(*TINY, "--threads=1", journal, "--seed=1").returncode == 0
    before = (tmp_path / "run.jsonl").read_bytes()
    done = run(*TINY, "--threads=1", journal, "--seed=2", "--resume")
    assert_refused(done, ("its flags was", "--seed=1", "--seed=2", "another --journal"))
    done = run(*TINY, "--threads=1", journal, "--seed=1", "--allocator=system", "--resume")
    assert_refused(done, ("its flags was", "--allocator=system", "another --journal"))
    done = run(*TINY, "--threads=2", journal, "--seed=1", "--resume")
    assert_refused(done, ("is of another run", "another --journal"))
    assert (tmp_path / "run.jsonl").read_bytes() == before


def test_a_damaged_journal_is_refused_and_kept(run: Run, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    flags = (*TINY, "--threads=1", f"--journal={journal}")
    assert run(*flags).returncode == 0
    lines = journal.read_text().splitlines(keepends=True)
    for damaged, said in (
        (lines[0] + lines[1][:-20] + "\n" + lines[2], "damaged in line 2"),
        ("".join(lines[:2]) + lines[1], "twice (line 3)"),
        ("".join(lines[1:]), "is no journal of roofbench"),
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
        assert "the run goes on, and lines from" in done.stderr, "at once, and not at the end alone"
        text = journal.read_text()
        assert text.endswith("\n"), "no half line"
        kept = [json.loads(line) for line in text.splitlines()][1:]
        assert 0 < len(kept) < 80
        subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
        done = run(*flags, "--resume", f"--benchmark_out={tmp_path}/out.json")
        assert done.returncode == 0, done.stderr
        assert f"going on after {len(kept)} finished case(s)" in done.stderr
        assert len(journal.read_text().splitlines()) == 81
    finally:
        subprocess.run(["umount", str(small_disk)], check=True)


def test_a_missing_libtorch_is_named(program: Path, tmp_path: Path) -> None:
    """A copy of the program that looks for LibTorch where there is none, as after the move of an environment."""
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
    # Nothing of ours runs before the loader: tools/bench says what to do (tests/tools).
