# SPDX-License-Identifier: Apache-2.0
"""Threads that OpenMP binds, and threads that cannot run at the same time, by both entries."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from entries import COPY, NAMES, Entry, entry

_TWO = ("env", "OMP_NUM_THREADS=2")
_FLAGS = {"program": ("--benchmark_filter=^planted/.*how:good",), "python": ("--filter=^copy/bytes:1024/",)}


def _behind(name: str, folder: Path, *command: str) -> Entry:
    run = entry(name, "planted", f"{COPY}\n    import torch\n", folder)
    few = tuple(flag for flag in run.few if flag != "--threads=1")
    return dataclasses.replace(run, command=(*command, *run.command), few=few)


@pytest.mark.parametrize("name", NAMES)
def test_facts_name_the_processors_of_all_bound_threads(name: str, tmp_path: Path) -> None:
    processors = sorted(os.sched_getaffinity(0))[:2]
    if len(processors) < 2:
        pytest.skip("one processor")
    both = ",".join(map(str, processors))
    run = _behind(name, tmp_path, "taskset", "-c", both, *_TWO, "OMP_PROC_BIND=true")
    done = run(*_FLAGS[name], f"--journal={tmp_path}/run.jsonl")
    assert done.returncode == 0, done.stderr
    context = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])["context"]
    assert (context["cpu_affinity"], context["threads"]) == (both, "2")
    assert "share processor" not in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_threads_that_never_run_together_are_said_once(name: str, tmp_path: Path) -> None:
    one = min(os.sched_getaffinity(0))
    done = _behind(name, tmp_path, "taskset", "-c", str(one), *_TWO)(*_FLAGS[name])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"2 threads share processor {one}: they never all run at the same time") == 1
