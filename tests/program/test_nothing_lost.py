"""Runs that are killed, that hold cases that go wrong in every way, and that go on: no case is lost or doubled."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from built_program import TINY, Run

# Fifty small cases, 150 with their repetitions, in processes that measure their roofs in half a second.
MANY = (
    "--benchmark_filter=^copy/impl:stream/bytes:.*cache:warm",
    "--suite=quick",
    f"--axis=copy.bytes={','.join(str(1024 * k) for k in range(1, 51))}",
    "--benchmark_repetitions=3",
    "--benchmark_min_time=5x",
    "--warmup_iters=1",
    "--threads=1",
)
KILLS = 50
SHOWN = re.compile(r"^  (impl:\S+) .*\n", re.MULTILINE)


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["benchmarks"]
    return [row for row in found if row["run_type"] == "iteration"]


def journal_lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()[1:]]


def cases_of(lines: list[dict[str, Any]]) -> Counter[tuple[str, int]]:
    return Counter((line["name"], line["repetition"]) for line in lines)


def test_a_resumed_run_writes_what_an_unbroken_one_writes(run: Run, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    flags = (*TINY, "--threads=1", "--benchmark_repetitions=3", f"--journal={journal}")
    assert run(*flags, f"--benchmark_out={tmp_path}/whole.json").returncode == 0
    whole = journal.read_text()
    # All of it, and once more from the middle of a line: the cases before it are those of the first process.
    again = run(*flags, f"--benchmark_out={tmp_path}/again.json", "--resume")
    assert again.returncode == 0
    assert "going on after 12 finished case(s)" in again.stderr
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("whole.json", "again.json"))
    assert first["benchmarks"] == second["benchmarks"], "to the last digit, aggregates and all"
    assert journal.read_text() == whole
    journal.write_text(whole[: int(len(whole) * 0.6)])
    cut = run(*flags, f"--benchmark_out={tmp_path}/cut.json", "--resume", "--benchmark_format=csv")
    assert cut.returncode == 0
    assert "was cut off: its case runs again" in cut.stderr
    assert cases_of(journal_lines(journal)) == cases_of([json.loads(line) for line in whole.splitlines()[1:]])
    kept = len([line for line in whole[: int(len(whole) * 0.6)].splitlines()[1:] if line.endswith("}")]) - 1
    assert kept > 3
    assert rows(tmp_path / "cut.json")[:kept] == rows(tmp_path / "whole.json")[:kept]
    assert len(cut.stdout.splitlines()) == 1 + len(json.loads((tmp_path / "cut.json").read_text())["benchmarks"])


def test_resume_without_a_journal_starts_with_the_first_case(run: Run, tmp_path: Path) -> None:
    done = run(*TINY, "--threads=1", f"--journal={tmp_path}/run.jsonl", "--resume")
    assert done.returncode == 0
    assert "starting with the first case" in done.stderr
    assert len(journal_lines(tmp_path / "run.jsonl")) == 4


def kill_at(process: subprocess.Popen[bytes], journal: Path, console: Path, moment: random.Random) -> bool:
    """Kills a run at a random time from its start, a random moment after some of its cases, or as soon as it has shown
    the row of a new one. True if it still ran."""

    def wait_for(reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None and not reached():
            time.sleep(0.0005)

    kind = moment.choice(["time", "journal", "console"])
    if kind == "time":
        time.sleep(moment.uniform(0, 1))
    elif kind == "journal":
        wanted = (journal.stat().st_size if journal.exists() else 0) + moment.randrange(1, 4000)
        wait_for(lambda: journal.exists() and journal.stat().st_size >= wanted)
        time.sleep(moment.uniform(0, 0.01))
    else:
        finished = len({line["name"] for line in journal_lines(journal)}) if journal.exists() else 0
        rows_wanted = 3 * (finished + 1)
        wait_for(lambda: len(SHOWN.findall(console.read_text())) >= rows_wanted)
    process.send_signal(signal.SIGKILL)
    return process.wait(timeout=60) == -signal.SIGKILL


@pytest.mark.slow
def test_fifty_kills(program: Path, run: Run, tmp_path: Path) -> None:
    listed = run(*MANY, "--benchmark_list_tests").stdout.split()
    expected = Counter((name.removesuffix("/manual_time"), k) for name in listed for k in range(3))
    assert len(expected) >= 100
    moment = random.Random(20261121)
    journal, out = tmp_path / "run.jsonl", tmp_path / "out.json"
    flags = [str(program), *MANY, f"--journal={journal}", f"--benchmark_out={out}", "--resume"]
    killed = 0
    seen: dict[tuple[str, int], float] = {}
    for kill in range(KILLS):
        with (tmp_path / "console").open("wb") as console:
            process = subprocess.Popen(flags, stdout=console, stderr=subprocess.PIPE)
        killed += kill_at(process, journal, tmp_path / "console", moment)
        assert process.stderr
        assert process.returncode in (0, -signal.SIGKILL), process.stderr.read().decode()
        process.stderr.close()
        if out.exists():
            assert len(rows(out)) == len(expected), "a file is whole or not there"
        if not journal.exists():
            continue
        complete = journal_lines(journal)
        medians = {(line["name"], line["repetition"]): line["median_s"] for line in complete}
        assert len(medians) == len(complete), f"doubled after kill {kill}"
        assert medians.items() >= seen.items(), f"lost after kill {kill}"
        for name in set(SHOWN.findall((tmp_path / "console").read_text())):
            kept = sum(case == f"copy/{name}" for case, _ in medians)
            assert kept == 3, f"{name} was shown before kill {kill}, and {kept} of its 3 repetitions were kept"
        seen = medians
    assert killed >= KILLS / 2, "most runs were killed before their end"
    assert run(*flags[1:]).returncode == 0
    assert cases_of(journal_lines(journal)) == expected
    assert Counter((row["name"].removesuffix("/manual_time"), row["repetition_index"]) for row in rows(out)) == expected
    for line in journal_lines(journal):
        assert seen.get((line["name"], line["repetition"]), line["median_s"]) == line["median_s"]


# What the cases that end may take: the first failure of LibTorch reads its symbols, over a second on a busy disk.
CASE_TIMEOUT = 20

GOES_WRONG = {
    "good": (None, ""),
    "throws": ("failed", "the kernel broke"),
    "foreign": ("failed", "threw something that is no std::exception"),
    "wrong": ("failed", "wrong result"),
    "refuses": ("skipped", "no kernel for this"),
    "overrun": ("skipped", "out of memory: .* 1125899906842624 bytes.*predicted, .* free"),
    "bad_alloc": ("skipped", r"out of memory \(memory: .* predicted, .* free\)"),
    "creeps": ("skipped", "out of memory: .* 67108864 bytes.*predicted, .* free"),
    "hangs": ("failed", rf"not finished after {CASE_TIMEOUT} s \(--case_timeout\)"),
    "last": (None, ""),
}


@pytest.fixture
def planted(program: Path) -> Path:
    return program.with_name("planted")


def test_a_case_that_goes_wrong_never_stops_the_others(planted: Path, tmp_path: Path) -> None:
    out, journal = tmp_path / "out.json", tmp_path / "run.jsonl"
    flags = ["--threads=1", "--benchmark_min_time=3x", "--warmup_iters=1", f"--case_timeout={CASE_TIMEOUT}"]
    done = subprocess.run(
        [planted, *flags, f"--journal={journal}", f"--benchmark_out={out}", "--benchmark_format=csv"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert f"planted/how:hangs/cache:warm: not finished after {CASE_TIMEOUT} s" in done.stderr
    assert "4 case(s) failed" in done.stderr
    by_name = {row["name"].removesuffix("/manual_time"): row for row in rows(out)}
    assert list(by_name) == [f"planted/how:{how}/cache:warm" for how in GOES_WRONG]
    for how, (verdict, reason) in GOES_WRONG.items():
        row = by_name[f"planted/how:{how}/cache:warm"]
        message = row.get("error_message", "")
        if verdict is None:
            assert not message
            assert row["real_time"] > 0
        else:
            assert re.fullmatch(f"{verdict}: .*{reason}.*", message), message
    assert len(done.stdout.splitlines()) == 1 + len(GOES_WRONG), "standard output is whole, and there once"
    assert cases_of(journal_lines(journal)) == Counter({(name, 0): 1 for name in by_name})
    # What compare.py would take for gains of 100 % is not in the file for it.
    comparable = rows(tmp_path / "out.comparable.json")
    assert [row["name"].split("how:")[1].split("/")[0] for row in comparable] == ["good", "last"]


def test_a_signal_to_a_hanging_case_ends_the_run_in_order(planted: Path, tmp_path: Path) -> None:
    out, journal = tmp_path / "out.json", tmp_path / "run.jsonl"
    flags = ["--threads=1", "--benchmark_min_time=3x", "--warmup_iters=1", "--case_timeout=10"]
    chosen = "--benchmark_filter=how:(good|hangs|last)/"
    process = subprocess.Popen(
        [planted, *flags, chosen, f"--journal={journal}", f"--benchmark_out={out}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    assert any(line == "hanging\n" for line in process.stderr)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, stderr
    assert [row["name"].split("how:")[1].split("/")[0] for row in rows(out)] == ["good", "hangs"]


def test_two_processes_do_not_share_a_journal(program: Path, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    flags = [str(program), *MANY, f"--journal={journal}"]
    first = subprocess.Popen(flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not journal.exists():
            time.sleep(0.01)
            assert first.poll() is None
        first.send_signal(signal.SIGSTOP)
        second = subprocess.run([*flags, "--resume"], capture_output=True, text=True, check=False, timeout=60)
    finally:
        first.kill()
        first.wait()
    assert second.returncode == 2
    assert f"{journal} is being written by another roofbench" in second.stderr


def test_the_program_is_not_its_own_past(planted: Path, run: Run, tmp_path: Path) -> None:
    """A journal of another program, though with the same flags."""
    journal = tmp_path / "run.jsonl"
    flags = ("--benchmark_filter=how:good|^self", "--threads=1", "--benchmark_min_time=1x", f"--journal={journal}")
    assert subprocess.run([planted, *flags], capture_output=True, check=False).returncode == 0
    refused = run(*flags, "--resume")
    assert refused.returncode == 2
    assert "is of another run: its program was" in refused.stderr
