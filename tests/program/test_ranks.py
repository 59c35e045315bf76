# SPDX-License-Identifier: Apache-2.0
"""Cases of several ranks that are killed, hang and disagree: each is one row, and no process stays behind."""

from __future__ import annotations

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


def cases(how: str) -> str:
    return f"--benchmark_filter=planted_ranks/how:({how})/"


def start(*flags: str, launcher: tuple[str, ...] = (), **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*launcher, str(PLANTED), *QUICKLY, *flags],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **variables},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status and all output of a program, whose ranks must all have ended with it."""
    _, errors = process.communicate(timeout=120)
    if SKIPPED_WITHOUT in errors:
        pytest.skip(SKIPPED_WITHOUT)
    await_the_end({int(pid) for _, pid in RANK.findall(errors)})
    return process.returncode, errors


def await_the_end(pids: set[int]) -> None:
    for pid in pids:
        for _ in range(1000):
            if is_over(pid):
                break
            time.sleep(0.01)
        else:
            pytest.fail(f"process {pid} stayed behind")


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


def as_rank(rank: int, port: str, *flags: str) -> subprocess.Popen[str]:
    return start(*flags, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)


def test_what_goes_wrong_on_one_rank_is_one_row(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    status, errors = finish(start(cases(".*"), "--rank_timeout=3", f"--benchmark_out={out}"))
    found = {how: reason for (how, _), reason in reasons(out).items()}
    assert found.pop("good") == found.pop("last") == "", errors
    assert "rank 1: wrong result" in found.pop("wrong")
    assert "rank 1: the kernel broke" in found.pop("throws")
    assert "rank 1: no kernel for this" in found.pop("refuses")
    assert "rank 1 was ended by SIGKILL" in found.pop("killed")
    assert "rank 1 ended with exit status 7" in found.pop("exits")
    assert "rank 1 did not answer within 3" in found.pop("hangs")
    assert not found
    assert status == 1
    assert all("rank_skew_ms" in row for row in rows_of(out) if "good" in row["name"])


def test_three_ranks(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    status, errors = finish(start(cases("good"), "--ranks=3", f"--benchmark_out={out}"))
    assert status == 0, errors
    assert len(set(RANK.findall(errors))) == 3
    assert [row["name"].count("ranks:3") for row in rows_of(out)] == [1]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_costs_one_row(victim: int, tmp_path: Path) -> None:
    repetitions = 30
    out = tmp_path / "out.json"
    process = start(cases("good"), f"--benchmark_repetitions={repetitions}", f"--benchmark_out={out}")
    assert process.stderr is not None
    noise = random.Random(victim)
    killed = seen = 0
    pids: set[int] = set()
    errors = ""
    for line in process.stderr:
        errors += line
        for rank, pid in RANK.findall(line):
            pids.add(int(pid))
            seen += int(rank) == victim
            if int(rank) == victim and seen == 3 + 6 * killed and killed < 3:
                time.sleep(noise.uniform(0, 0.05))
                os.kill(int(pid), signal.SIGKILL)
                killed += 1
    status, _ = finish(process)
    if SKIPPED_WITHOUT in errors:
        pytest.skip(SKIPPED_WITHOUT)
    await_the_end(pids)
    rows = rows_of(out)
    assert sorted(row["repetition_index"] for row in rows) == list(range(repetitions)), errors
    failed = [row["error_message"] for row in rows if row.get("error_occurred")]
    # A kill between two cases fails none of them: another process takes its place.
    assert killed == 3 and len(failed) <= killed
    assert all("rank 1" in reason if victim else "killed (SIGKILL)" in reason for reason in failed), failed
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
    process.kill()
    process.wait(timeout=60)  # and not for the end of its output, which a rank that survives keeps open
    await_the_end(pids)
    process.communicate()


def test_ranks_that_torchrun_started(tmp_path: Path) -> None:
    torchrun = ROOT / ".venv" / "bin" / "torchrun"
    if not torchrun.exists():
        pytest.skip("torchrun is not installed")
    out = tmp_path / "out.json"
    launcher = (str(torchrun), "--no-python", "--nproc_per_node=2", f"--master_port={free_port()}")
    flags = (cases("good|throws|last"), "--ranks=2,3", f"--benchmark_out={out}", f"--journal={tmp_path}/journal")
    finish(start(*flags, launcher=launcher))
    found = reasons(out)
    assert found["good", 2] == found["last", 2] == ""
    assert "rank 1: the kernel broke" in found["throws", 2]
    assert all("needs 3 ranks" in found[how, 3] for how in ("good", "throws", "last"))


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
