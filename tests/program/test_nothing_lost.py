# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed, that hold cases with every kind of failure, and that resume: each case appears exactly once."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import random
import re
import select
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from built_program import NO_ROOFS, PROGRAM, WITH_ROOFS
from entries import COPY, LEAVING, NAMES, PLANTED, Entry, entry

# Fifty small cases, 150 with their repetitions, in processes that measure their roofs in half a second.
MANY = (
    "--benchmark_filter=^copy/impl:stream/bytes:.*cache:warm",
    "--suite=quick",
    f"--axis=copy.bytes={','.join(str(1024 * k) for k in range(1, 51))}",
    "--benchmark_min_time=5x",
    "--roofs=reuse",  # whose probes give a case the time to be killed in
)
KILLS = {"program": 10, "python": 3}  # a case in Python takes half a second
SHOWN = {
    "program": re.compile(r"^  (impl:\S+) .*\n", re.MULTILINE),
    "python": re.compile(r"^copy/(\S+)  .*\n", re.MULTILINE),
}


@pytest.fixture(params=NAMES)
def copying(request: pytest.FixtureRequest, tmp_path: Path) -> Entry:
    """Cases of an entry that take no time."""
    return entry(request.param, PROGRAM.name, COPY, tmp_path)


@pytest.fixture(params=[NAMES[0], pytest.param(NAMES[1], marks=pytest.mark.slow)])
def going_wrong(request: pytest.FixtureRequest, tmp_path: Path) -> Entry:
    """Cases of an entry that end in every way."""
    return entry(request.param, "planted", PLANTED, tmp_path)


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["benchmarks"]
    return [row for row in found if row["run_type"] == "iteration"]


def journal_lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()[1:]]


def cases_of(lines: list[dict[str, Any]]) -> Counter[tuple[str, int]]:
    return Counter((line["name"], line["repetition"]) for line in lines)


# Four cases of either entry, 1 to 4 KiB.
FOUR = ("--benchmark_filter=^copy/.*cache:warm", "--axis=copy.bytes=1024:4096:+1024")
FOUR_OF_PROGRAM = ("--suite=quick", "--axis=copy.impl=stream")


def four(copying: Entry) -> tuple[str, ...]:
    return FOUR if copying.is_python else (*FOUR, *FOUR_OF_PROGRAM)


def test_a_resumed_run_equals_an_uninterrupted_one(copying: Entry, tmp_path: Path) -> None:
    run, journal = copying, tmp_path / "run.jsonl"
    flags = (*four(copying), "--benchmark_repetitions=3", f"--journal={journal}")
    assert run(*flags, f"--benchmark_out={tmp_path}/whole.json").returncode == 0
    whole = journal.read_text()
    # All of it, and once more from the middle of a line: the cases before it are those of the first process.
    again = run(*flags, f"--benchmark_out={tmp_path}/again.json", "--resume")
    assert again.returncode == 0
    assert "continuing after 12 finished cases" in again.stderr
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("whole.json", "again.json"))
    assert first["benchmarks"] == second["benchmarks"], "to the last digit, aggregates and all"
    assert journal.read_text() == whole
    cut_at = (2 * whole.index("\n") + 3 * len(whole)) // 5  # three fifths into the lines of the cases
    journal.write_text(whole[:cut_at])
    as_csv = () if copying.is_python else ("--benchmark_format=csv",)
    cut = run(*flags, f"--benchmark_out={tmp_path}/cut.json", "--resume", *as_csv)
    assert cut.returncode == 0
    assert "was cut off: its case runs again" in cut.stderr
    assert cases_of(journal_lines(journal)) == cases_of([json.loads(line) for line in whole.splitlines()[1:]])
    kept = len([line for line in whole[:cut_at].splitlines()[1:] if line.endswith("}")]) - 1
    assert kept > 3
    assert rows(tmp_path / "cut.json")[:kept] == rows(tmp_path / "whole.json")[:kept]
    if as_csv:
        assert len(cut.stdout.splitlines()) == 1 + len(json.loads((tmp_path / "cut.json").read_text())["benchmarks"])


def test_resume_without_a_journal_starts_with_the_first_case(copying: Entry, tmp_path: Path) -> None:
    done = copying(*four(copying), f"--journal={tmp_path}/run.jsonl", "--resume")
    assert done.returncode == 0
    assert "starting with the first case" in done.stderr
    assert len(journal_lines(tmp_path / "run.jsonl")) == 4


def test_a_journal_of_another_run_is_refused(copying: Entry, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    flags = ("--benchmark_filter=^copy/.*cache:warm", *four(copying)[2:], f"--journal={journal}")
    assert copying(*flags, "--axis=copy.bytes=1024").returncode == 0
    other = copying(*flags, "--axis=copy.bytes=2048", "--resume")
    assert (other.returncode, "belongs to another run, with the flags" in other.stderr) == (2, True), other.stderr
    header, line = journal.read_text().splitlines()
    journal.write_text(f"{header}\n{{}}\n{line}\n")
    damaged = copying(*flags, "--axis=copy.bytes=1024", "--resume")
    assert (damaged.returncode, "damaged in line 2" in damaged.stderr) == (2, True), damaged.stderr
    assert copying(*flags, "--axis=copy.bytes=1024").returncode == 0
    assert (tmp_path / "run.jsonl.previous").read_text().splitlines()[1] == "{}"
    (tmp_path / "notes.txt").write_text("mine\n")
    assert copying(*flags, f"--journal={tmp_path}/notes.txt").returncode == 2
    assert (tmp_path / "notes.txt").read_text() == "mine\n"


def child_of(parent: int) -> int | None:
    """The process that runs the cases; None before it starts and after it ends."""
    # Not glob("[0-9]*/stat"), which looks at each file itself and fails for a process that ends meanwhile.
    for pid in (path.name for path in Path("/proc").iterdir() if path.name.isdigit()):
        try:
            state, its_parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if int(its_parent) == parent and state != "Z" and b"resource_tracker" not in command:
            return int(pid)
    return None


def ends(pidfd: int) -> bool:
    """Whether the process comes to its end."""
    return bool(select.select([pidfd], [], [], 600)[0])


def kill_at(
    process: subprocess.Popen[bytes], journal: Path, console: Path, shown: re.Pattern[str], moment: random.Random
) -> bool:
    """Kills a run at a random time from its start, a random moment after some of its cases, or as soon as it has shown
    the row of a new one: the whole, or first the process of its cases, which the run survives. True if it still ran."""

    def wait_for(reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 600
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
        wait_for(lambda: len(shown.findall(console.read_text())) >= rows_wanted)
    child = child_of(process.pid)
    if moment.choice([True, False]) and child is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        wait_for(lambda: child_of(process.pid) not in (None, child))
        time.sleep(moment.uniform(0, 1))
    process.send_signal(signal.SIGKILL)
    return process.wait(timeout=600) == -signal.SIGKILL


KILLED = "killed (SIGKILL), most likely by the system for memory"


def result_of(line: dict[str, Any]) -> float | str:
    """The result that a finished case keeps for ever: its median, or that it was the case in which the process was
    killed.
    """
    if line["verdict"] == "failed":
        assert line["reason"] == KILLED
        return KILLED
    return float(line["median_s"])


@pytest.mark.parametrize(
    "nights", [pytest.param(1, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.nightly)]
)
def test_kills(copying: Entry, nights: int, tmp_path: Path) -> None:
    many, kills, pattern = () if copying.is_python else MANY, nights * KILLS[copying.name], SHOWN[copying.name]
    listed = copying(*many, "--benchmark_list_tests").stdout.split()
    expected = Counter((name.removesuffix("/manual_time"), k) for name in listed for k in range(3))
    assert len(expected) >= 3 * kills
    moment = random.Random(20261121)
    journal, out = tmp_path / "run.jsonl", tmp_path / "out.json"
    flags = [*many, "--benchmark_repetitions=3", f"--journal={journal}", f"--benchmark_out={out}", "--resume"]
    killed = 0
    seen: dict[tuple[str, int], float | str] = {}
    for kill in range(kills):
        with (tmp_path / "console").open("wb") as console:
            process = copying.start(*flags, stdout=console, stderr=subprocess.PIPE)
        killed += kill_at(process, journal, tmp_path / "console", pattern, moment)
        assert process.stderr
        assert process.returncode in (0, 1, -signal.SIGKILL), process.stderr.read().decode()
        process.stderr.close()
        if out.exists():
            assert len(rows(out)) == len(expected), "a file is whole or not there"
        if not journal.exists():
            continue
        complete = journal_lines(journal)
        results = {(line["name"], line["repetition"]): result_of(line) for line in complete}
        assert len(results) == len(complete), f"doubled after kill {kill}"
        assert results.items() >= seen.items(), f"lost after kill {kill}"
        shown = Counter(pattern.findall((tmp_path / "console").read_text()))
        for name, count in shown.items():
            kept = sum(case == f"copy/{name}" for case, _ in results)
            wanted = min(count, 3) if copying.is_python else 3  # a row of a repetition, or of a whole case
            assert kept >= wanted, f"{name} was shown before kill {kill}, and {kept} of its 3 repetitions were kept"
        seen = results
    assert killed >= kills / 2, "most runs were killed before their end"
    failed = KILLED in map(result_of, [*journal_lines(journal)])
    assert copying(*flags).returncode == (1 if failed else 0)
    assert cases_of(journal_lines(journal)) == expected
    assert Counter((row["name"].removesuffix("/manual_time"), row["repetition_index"]) for row in rows(out)) == expected
    for line in journal_lines(journal):
        assert seen.get((line["name"], line["repetition"]), result_of(line)) == result_of(line)


def test_a_reader_that_has_seen_enough_ends_the_run_in_order(copying: Entry, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    many, row = ((), "copy/") if copying.is_python else (MANY, "  impl:")
    process = copying.start(*many, f"--benchmark_out={out}", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    assert any(line.startswith(row.encode()) for line in process.stdout)
    process.stdout.close()  # as `| head` does
    assert process.wait(timeout=600) == 128 + signal.SIGPIPE, process.stderr.read()
    process.stderr.close()
    assert 1 <= len(rows(out)) < (15 if copying.is_python else 50)


# The time limit for the cases that end: the first failure of LibTorch reads its symbols, over a second on a busy disk.
CASE_TIMEOUT = 20

GOES_WRONG = {
    "good": (None, ""),
    "throws": ("failed", "the kernel broke"),
    "foreign": ("failed", "threw something other than a std::exception"),
    "wrong": ("failed", "wrong result"),
    "refuses": ("skipped", "no kernel for this"),
    "overrun": ("skipped", "out of memory: .* 1125899906842624 bytes.*predicted, .* free"),
    "bad_alloc": ("skipped", r"out of memory \(memory: .* predicted, .* free\)"),
    "creeps": ("skipped", "out of memory: .* 67108864 bytes.*predicted, .* free"),
    "segv": ("failed", r"crashed \(SIGSEGV, Segmentation fault\)"),
    "aborts": ("failed", r"crashed \(SIGABRT, Aborted\)"),
    "bus": ("failed", r"crashed \(SIGBUS, Bus error\)"),
    "fpe": ("failed", r"crashed \(SIGFPE, Floating point exception\)"),
    "illegal": ("failed", r"crashed \(SIGILL, Illegal instruction\)"),
    "killed": ("failed", re.escape(KILLED)),
    "exits": ("failed", "ended with exit status 7"),
    "hangs": ("failed", rf"not finished after {CASE_TIMEOUT} s \(--case_timeout\)"),
    "last": (None, ""),
}


# The same of Python functions.
GOES_WRONG_IN_PYTHON = {
    how: GOES_WRONG[how]
    for how in ("good", "throws", "wrong", "refuses", "bad_alloc", "segv", "aborts", "killed", "exits", "hangs", "last")
} | {"bad_alloc": ("skipped", "out of memory: no memory")}


@pytest.fixture
def planted(program: Path) -> Path:
    return program.with_name("planted")


@pytest.mark.parametrize("fresh", [True, False])
def test_a_fresh_process_is_one_for_each_repetition(planted: Path, tmp_path: Path, fresh: bool) -> None:
    out = tmp_path / "out.json"
    flags = ["--filter=^planted/how:(good|last)/", "--benchmark_repetitions=2", "--benchmark_min_time=2x", *NO_ROOFS]
    flags += ["--threads=1", f"--benchmark_out={out}", *(["--fresh_process"] if fresh else [])]
    done = subprocess.run([planted, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    measured = rows(out)
    assert [(row["name"].split("how:")[1].split("/")[0], row["repetition_index"]) for row in measured] == [
        (how, repetition) for how in ("good", "last") for repetition in (0, 1)
    ]
    processes = re.findall(r"^built by (\d+)$", done.stderr, re.MULTILINE)
    assert len(processes) == 4
    assert len(set(processes)) == (4 if fresh else 1)
    assert done.stdout.count("how:last") == done.stdout.count("how:good")


def test_a_case_that_goes_wrong_never_stops_the_others(going_wrong: Entry, tmp_path: Path) -> None:
    out, journal = tmp_path / "out.json", tmp_path / "run.jsonl"
    endings = GOES_WRONG_IN_PYTHON if going_wrong.is_python else GOES_WRONG
    as_csv = () if going_wrong.is_python else ("--benchmark_format=csv",)
    files = (f"--journal={journal}", f"--benchmark_out={out}")
    done = going_wrong(f"--case_timeout={CASE_TIMEOUT}", *files, *as_csv)
    assert done.returncode == 1, done.stderr
    by_name = {row["name"].removesuffix("/manual_time"): row for row in rows(out)}
    assert list(by_name) == [f"planted/how:{how}/cache:warm" for how in endings]
    for how, (verdict, reason) in endings.items():
        row = by_name[f"planted/how:{how}/cache:warm"]
        message = row.get("error_message", "")
        if verdict is None:
            assert not message
            assert row["real_time"] > 0
        else:
            assert re.fullmatch(f"{verdict}: .*{reason}.*", message), message
    lines = journal_lines(journal)
    assert cases_of(lines) == Counter({(name, 0): 1 for name in by_name})
    for line in lines:
        said = f"{line['verdict']}: {line['reason']}" if "reason" in line else ""
        assert said == by_name[line["name"]].get("error_message", "")
    failed = sum(verdict == "failed" for verdict, _ in endings.values())
    if not as_csv:
        assert f"{failed} failed" in done.stdout
        return
    assert f"planted/how:hangs/cache:warm: not finished after {CASE_TIMEOUT} s" in done.stderr
    assert f"{failed} cases failed" in done.stderr
    # Standard output is complete, without duplicates, and agrees.
    table = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["name"] for row in table] == [row["name"] for row in by_name.values()]
    assert [row["error_message"] for row in table] == [row.get("error_message", "") for row in by_name.values()]
    assert [path.name for path in tmp_path.iterdir() if path != journal] == ["out.json"]


FEW = ("--threads=1", "--benchmark_min_time=3x", "--warmup_iters=1")


def test_rows_and_repetitions_around_a_crash_are_shown_and_kept_once(planted: Path, tmp_path: Path) -> None:
    """Though three processes, one after another, run the cases, and without a journal."""
    out = tmp_path / "out.json"
    chosen = (
        "--benchmark_filter=^planted/how:(good|segv|killed|last)/",
        "--benchmark_repetitions=2",
        f"--benchmark_out={out}",
        *WITH_ROOFS,
    )
    done = subprocess.run([planted, *FEW, *chosen], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 1
    assert done.stdout.count("measured roofs:") == 1
    assert len(re.findall("^planted ", done.stdout, re.MULTILINE)) == 1
    hows = ["good", "segv", "killed", "last"]
    assert list(dict.fromkeys(re.findall(r"^  how:(\w+)", done.stdout, re.MULTILINE))) == hows
    kept = [(row["name"].split("how:")[1].split("/")[0], "error_message" in row) for row in rows(out)]
    assert kept == [(how, how in ("segv", "killed")) for how in hows for _ in range(2)]


def test_megabytes_of_output_by_a_case_cost_nothing(planted: Path, tmp_path: Path) -> None:
    out, journal = tmp_path / "out.json", tmp_path / "run.jsonl"
    chosen = ("--benchmark_filter=^planted/", "--axis=planted.how=prints,last", *NO_ROOFS)
    files = (f"--benchmark_out={out}", f"--journal={journal}")
    done = subprocess.run([planted, *FEW, *chosen, *files], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0
    assert min(done.stdout.count("x" * 1_000_000), done.stderr.count("x" * 1_000_000)) >= 4, "each of its steps"
    kept = [(row["name"].split("how:")[1].split("/")[0], "error_message" in row) for row in rows(out)]
    assert kept == [("prints", False), ("last", False)]
    assert len(journal_lines(journal)) == 2
    assert "how:last" in done.stdout


def test_without_a_parent_a_crash_is_the_end(planted: Path) -> None:
    """As a debugger needs it."""
    flags = [*FEW, "--benchmark_filter=how:segv/", "--supervise=false"]
    done = subprocess.run([planted, *flags], capture_output=True, check=False, timeout=600)
    assert done.returncode == -signal.SIGSEGV


def until_it_hangs(process: subprocess.Popen[str]) -> None:
    assert process.stderr
    assert any(line == "hanging\n" for line in process.stderr)


@pytest.fixture
def hanging(going_wrong: Entry) -> Iterator[subprocess.Popen[str]]:
    """A run in the middle of a case without an end."""
    flags = ("--benchmark_filter=^planted/how:hangs/",)
    process = going_wrong.start(
        *flags, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until_it_hangs(process)
    yield process
    process.kill()
    process.communicate(timeout=600)


def test_the_end_of_the_parent_ends_the_child(hanging: subprocess.Popen[str]) -> None:
    child = child_of(hanging.pid)
    assert child is not None
    pidfd = os.pidfd_open(child)
    hanging.kill()
    assert ends(pidfd)
    os.close(pidfd)


# In Python the first signal ends the running case.
@pytest.mark.parametrize("going_wrong", ["program"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_run_at_once(hanging: subprocess.Popen[str], number: signal.Signals) -> None:
    child = child_of(hanging.pid)
    assert child is not None
    pidfd = os.pidfd_open(child)
    os.killpg(hanging.pid, number)
    assert hanging.stderr
    assert any(f"signal {int(number)}" in line for line in hanging.stderr)
    assert hanging.poll() is None
    while hanging.poll() is None:
        hanging.send_signal(number)
        time.sleep(0.01)
    assert hanging.returncode == -number
    assert ends(pidfd)
    os.close(pidfd)


def test_the_child_is_the_first_that_the_system_kills_for_memory(hanging: subprocess.Popen[str]) -> None:
    def score(pid: int | None) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    assert score(child_of(hanging.pid)) > score(hanging.pid) or score(hanging.pid) == 1000


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_signal_to_a_hanging_case_ends_the_run_in_order(
    going_wrong: Entry, number: signal.Signals, tmp_path: Path
) -> None:
    """And --resume runs what is left."""
    out, journal = tmp_path / "out.json", tmp_path / "run.jsonl"
    files = (f"--journal={journal}", f"--benchmark_out={out}", "--case_timeout=10")
    flags = ("--benchmark_filter=^planted/how:(good|hangs|last)/", *files)
    process = going_wrong.start(*flags, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until_it_hangs(process)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == 128 + number, stderr
    assert f"interrupted by signal {int(number)}" in stderr
    shown = [row["name"].split("how:")[1].split("/")[0] for row in rows(out)]
    # A case without samples has nothing to wait for: it runs again.
    assert shown == ["good"]
    done = going_wrong(*flags, "--resume")
    assert done.returncode == 1, done.stderr
    assert [line["verdict"] for line in journal_lines(journal)] == ["measured", "failed", "measured"]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_case_leaves_is_not_the_next_ones(name: str, tmp_path: Path) -> None:
    """Working folder, mask of files, blocked signals, limits, threads, processes; and a SIGPIPE is a row."""
    run, journal = entry(name, "planted", LEAVING, tmp_path), tmp_path / "left.jsonl"
    order = ["moves", "looks", "spins", "forks", "pipes", "last"]
    axis = () if run.is_python else (f"--axis=planted.how={','.join(order)}",)
    flags = ("--benchmark_filter=^planted/", *axis, f"--journal={journal}")
    first = run(*flags)
    assert journal.exists(), first.stderr
    lines = journal_lines(journal)
    assert [line["name"].split("how:")[1].split("/")[0] for line in lines] == order, first.stderr
    verdicts = dict(zip(order, (line["verdict"] for line in lines), strict=True))
    # The program ignores a SIGPIPE; in Python the case has taken the signal's default back.
    assert (verdicts["pipes"], verdicts["last"]) == ("failed" if run.is_python else "measured", "measured")
    assert (verdicts["moves"], verdicts["looks"], verdicts["forks"]) == ("measured",) * 3, first.stderr
    if run.is_python:  # a process for each case
        assert "still worked when the call returned" in lines[2]["reason"]
    else:
        assert "the working folder" in first.stderr and "left a thread that still works" in first.stderr
        moves, looks, spins, forks = re.findall(r"built by (\d+)", first.stderr)[:4]
        assert moves == looks == spins, "what can be brought back needs no other process"
        assert forks != spins, "a thread cannot be taken back"
    # The process that is left holds no lock, and the next run continues this one.
    text = journal.read_text()
    again = run(*flags, "--resume")
    assert "continuing after 6 finished cases" in again.stderr
    assert journal.read_text() == text
