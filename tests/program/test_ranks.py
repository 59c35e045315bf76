# SPDX-License-Identifier: Apache-2.0
"""Cases of several ranks that are killed, hang and disagree: each is one row, and no process is left over."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from built_program import BIN, NO_ROOFS, ROOT

PLANTED = BIN / "planted"
QUICKLY = ("--benchmark_min_time=3x", "--warmup_iters=1", *NO_ROOFS)
RANK = re.compile(r"rank (\d+) is (\d+)")
SKIPPED_WITHOUT = "this build has no Gloo"
# Seconds after which a rank hangs: on a busy machine, processes take several to start and to meet.
HANG = 20


def cases(how: str) -> str:
    return f"--benchmark_filter=planted_ranks/how:({how})/"


def start(
    *flags: str, launcher: tuple[str, ...] = (), program: Path = PLANTED, **variables: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*launcher, str(program), *QUICKLY, *flags],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **variables},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status and all output of a program, whose ranks must all have ended with it."""
    _, errors = process.communicate(timeout=600)
    if SKIPPED_WITHOUT in errors:
        pytest.skip(SKIPPED_WITHOUT)
    await_the_end({int(pid) for _, pid in RANK.findall(errors)})
    return process.returncode, errors


def await_the_end(pids: set[int]) -> None:
    for pid in pids:
        for _ in range(6000):
            if is_over(pid):
                break
            time.sleep(0.01)
        else:
            pytest.fail(f"process {pid} was left over")


def is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text())["benchmarks"]
    return [row for row in rows if row["run_type"] == "iteration"]


def reasons(path: Path) -> dict[tuple[str, int], str]:
    """Why each case, by its axes how and ranks, has no result; empty if it has one."""
    found = {}
    for row in rows_of(path):
        axes = dict(part.split(":") for part in row["name"].split("/") if ":" in part)
        found[axes["how"], int(axes["ranks"])] = row.get("error_message") or row.get("skip_message") or ""
    return found


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def as_rank(
    rank: int, port: str, *flags: str, launcher: tuple[str, ...] = (), program: Path = PLANTED
) -> subprocess.Popen[str]:
    place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return start(*flags, launcher=launcher, program=program, **place)


@pytest.mark.slow
def test_what_goes_wrong_on_one_rank_is_one_row(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    status, errors = finish(start(cases(".*"), f"--rank_timeout={HANG}", f"--benchmark_out={out}"))
    found = {how: reason for (how, _), reason in reasons(out).items()}
    assert found.pop("good") == found.pop("last") == "", errors
    assert "rank 1: wrong result" in found.pop("wrong")
    assert "rank 1: the kernel broke" in found.pop("throws")
    assert "rank 1: no kernel for this" in found.pop("refuses")
    assert "rank 1 was ended by SIGKILL" in found.pop("killed")
    assert "rank 1 ended with exit status 7" in found.pop("exits")
    assert f"rank 1 did not answer within {HANG}" in found.pop("hangs")
    assert not found
    assert status == 1
    assert all("rank_skew_ms" in row for row in rows_of(out) if "good" in row["name"])


def test_three_ranks(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    status, errors = finish(start(cases("good"), "--ranks=3", f"--benchmark_out={out}"))
    assert status == 0, errors
    assert "of its process" not in errors, "what the group needs of the process is no change by the case"
    assert len(set(RANK.findall(errors))) == 3
    assert [row["name"].count("ranks:3") for row in rows_of(out)] == [1]


@pytest.mark.parametrize(
    ("victims", "kills"),
    [
        ([0], 3),
        pytest.param([1], 3, marks=pytest.mark.slow),
        pytest.param([0, 1, 2], 20, marks=pytest.mark.nightly),
    ],
)
def test_a_killed_rank_costs_one_row(victims: list[int], kills: int, tmp_path: Path) -> None:
    repetitions = 10 * kills
    out = tmp_path / "out.json"
    flags = (f"--ranks={max(2, len(victims))}", f"--benchmark_repetitions={repetitions}", f"--benchmark_out={out}")
    process = start(cases("good"), *flags)
    assert process.stderr is not None
    noise = random.Random(len(victims) + victims[0])
    killed = seen = 0
    victim, until = noise.choice(victims), 3
    pids: set[int] = set()
    errors = ""
    for line in process.stderr:
        errors += line
        for rank, pid in RANK.findall(line):
            pids.add(int(pid))
            seen += int(rank) == victim
            if int(rank) == victim and seen == until and killed < kills:
                time.sleep(noise.uniform(0, 0.05))
                with contextlib.suppress(ProcessLookupError):  # of a team that has just ended
                    os.kill(int(pid), signal.SIGKILL)
                    killed += 1
                victim, seen, until = noise.choice(victims), 0, noise.randint(2, 7)
    status, _ = finish(process)
    if SKIPPED_WITHOUT in errors:
        pytest.skip(SKIPPED_WITHOUT)
    await_the_end(pids)
    rows = rows_of(out)
    assert sorted(row["repetition_index"] for row in rows) == list(range(repetitions)), errors
    failed = [row["error_message"] for row in rows if row.get("error_occurred")]
    # A kill between two cases fails none of them: another process takes its place.
    assert killed == kills and len(failed) <= killed
    reasons = [f"rank {victim}" if victim else "killed (SIGKILL)" for victim in victims]
    assert all(any(reason in row for reason in reasons) for row in failed), failed
    assert status == int(bool(failed))


def test_no_rank_survives_the_program() -> None:
    process = start(cases("hangs"))
    assert process.stderr is not None
    pids: set[int] = set()
    for line in process.stderr:
        pids |= {int(pid) for _, pid in RANK.findall(line)}
        if "hanging" in line:
            break
    else:
        pytest.skip(SKIPPED_WITHOUT)
    assert len({os.getsid(pid) for pid in pids}) == len(pids) == 2, "a share of the processors each, as torchrun gives"
    process.kill()
    process.wait(timeout=600)  # and not for the end of its output, which a rank that survives keeps open
    await_the_end(pids)
    process.communicate()


def torchrun(*flags: str) -> tuple[str, ...]:
    program = ROOT / ".venv" / "bin" / "torchrun"
    if not program.exists():
        pytest.skip("torchrun is not installed")
    return (str(program), "--no-python", "--nproc_per_node=2", f"--master_port={free_port()}", *flags)


def test_ranks_that_torchrun_started(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    flags = (cases("good|throws|last"), "--ranks=2,3", f"--benchmark_out={out}", f"--journal={tmp_path}/journal")
    finish(start(*flags, launcher=torchrun()))
    found = reasons(out)
    assert found["good", 2] == found["last", 2] == ""
    assert "rank 1: the kernel broke" in found["throws", 2]
    assert all("needs 3 ranks" in found[how, 3] for how in ("good", "throws", "last"))


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [True, False], ids=["journal", "none"])
def test_ranks_that_torchrun_starts_again_continue_or_say_why(keeps: bool, tmp_path: Path) -> None:
    journal, out = tmp_path / "journal", tmp_path / "out.json"
    kept = f"--journal={journal}" if keeps else f"--benchmark_out={out}"
    flags = (cases("good"), "--benchmark_repetitions=9", kept)
    process = start(*flags, launcher=torchrun("--max-restarts=1"))
    assert process.stderr is not None
    errors = ""
    seen = 0
    for line in process.stderr:
        errors += line
        for rank, pid in RANK.findall(line):
            seen += rank == "1"
            if rank == "1" and seen == 4:
                os.kill(int(pid), signal.SIGKILL)
    finish(process)
    await_the_end({int(pid) for _, pid in RANK.findall(errors)})
    if not keeps:
        assert "nothing keeps the finished cases: give --journal=FILE" in errors
        assert len(rows_of(out)) >= 3, "rank 0 writes what was measured before torchrun kills it"
        return
    assert re.search(r"continuing after [3-9] finished case", errors), errors
    lines = [json.loads(line) for line in journal.read_text().splitlines()][1:]
    assert sorted(line["repetition"] for line in lines) == list(range(9))
    assert sum(line["verdict"] != "measured" for line in lines) <= 1


@pytest.mark.slow
def test_a_full_disk_on_rank_0_loses_no_finished_case(tmp_path: Path) -> None:
    journal, whole = tmp_path / "journal", tmp_path / "whole"
    flags = (cases("good"), "--benchmark_repetitions=9")
    assert finish(start(*flags, f"--journal={whole}"))[0] == 0
    header = len(whole.read_text().splitlines()[0])
    blocks = (header + (whole.stat().st_size - header) // 2) // 1024
    port = free_port()
    full = ("bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash")
    ranks = [as_rank(rank, port, *flags, f"--journal={journal}", launcher=() if rank else full) for rank in (0, 1)]
    (status, errors), (other, _) = [finish(rank) for rank in ranks]
    assert status == 1 and other == 0
    assert f"cannot write {journal}: File too large" in errors and "the run continues" in errors
    assert journal.read_text().endswith("\n")
    kept = len(journal.read_text().splitlines()) - 1
    assert 0 < kept < 9
    status, errors = finish(start(*flags, f"--journal={journal}", "--resume"))
    assert status == 0 and f"continuing after {kept} finished case" in errors
    assert len(journal.read_text().splitlines()) == 10


def test_ranks_of_another_program_are_refused(tmp_path: Path) -> None:
    port = free_port()
    version = subprocess.run([PLANTED, "--version"], capture_output=True, text=True, check=True).stdout
    revision = version[version.index("(") + 1 : version.index(")")]
    other = tmp_path / "planted"
    other.write_bytes(PLANTED.read_bytes().replace(revision.encode(), b"x" * len(revision)))
    other.chmod(0o755)
    ranks = [as_rank(0, port, cases("good")), as_rank(1, port, cases("good"), program=other)]
    for status, errors in [finish(rank) for rank in ranks]:
        assert status == 2 and revision in errors and "x" * len(revision) in errors
        assert "start all ranks with the same program" in errors


def test_ranks_that_do_not_meet_say_why(tmp_path: Path) -> None:
    port = free_port()
    late = as_rank(1, free_port(), cases("good"), "--rank_timeout=1")
    alone = as_rank(0, port, cases("good"), "--rank_timeout=1")
    status, errors = finish(late)
    assert status == 2 and "MASTER_PORT must be those of rank 0" in errors
    status, errors = finish(alone)
    assert status == 2 and "rank 1 of 2 did not come in time" in errors


def test_a_port_belongs_to_one_run(tmp_path: Path) -> None:
    port = free_port()
    first = as_rank(0, port, cases("good"), "--rank_timeout=60")
    for _ in range(6000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                break
        time.sleep(0.01)
    status, errors = finish(as_rank(0, port, cases("good"), "--rank_timeout=1"))
    assert status == 2 and "choose a different MASTER_PORT" in errors
    assert finish(as_rank(1, port, cases("good"), "--rank_timeout=60"))[0] == 0
    assert finish(first)[0] == 0


@pytest.mark.parametrize("flag", ["--fresh_process", "--case_timeout=9"])
def test_a_launcher_is_the_supervisor(flag: str) -> None:
    status, errors = finish(as_rank(0, free_port(), cases("good"), flag))
    assert status == 2 and "--rank_timeout limits the wait" in errors


def test_ranks_with_other_flags_are_refused() -> None:
    port = free_port()
    ranks = [as_rank(rank, port, cases("good"), f"--seed={rank}") for rank in (0, 1)]
    for status, errors in [finish(rank) for rank in ranks]:
        assert status == 2 and "--seed=0" in errors and "--seed=1" in errors
