# SPDX-License-Identifier: Apache-2.0
"""The command line of the built program: help, signals, and other programs around it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from built_program import NO_ROOFS, ROOT, TINY, Run


def test_help_groups_flags_and_its_examples_work(run: Run) -> None:
    done = run("--help")
    assert done.returncode == 0
    assert done.stdout.count("\n") <= 60
    assert max(map(len, done.stdout.splitlines())) <= 80
    for group in ("What to run", "How to measure", "What to write", "Examples"):
        assert f"\n{group}\n" in done.stdout
    examples = re.findall(r"^  roofbench(.*?)(?:  .*)?$", done.stdout.split("Examples")[1], re.MULTILINE)
    assert len(examples) >= 5
    for example in examples:
        listed = run(*shlex.split(example), "--benchmark_list_tests")
        assert listed.returncode == 0, (example, listed.stderr)
        assert listed.stdout


# A terminal signals the whole group, `timeout` the program and then its group: that is one signal.
@pytest.mark.parametrize(
    ("number", "receivers"),
    [
        (signal.SIGINT, ["group"]),
        (signal.SIGTERM, ["program"]),
        (signal.SIGTERM, ["program", "group"]),
        (signal.SIGHUP, ["group"]),
    ],
)
def test_a_signal_ends_in_order(program: Path, tmp_path: Path, number: signal.Signals, receivers: list[str]) -> None:
    out = tmp_path / "out.json"
    journal = tmp_path / "run.jsonl"
    flags = [*TINY[:5], *NO_ROOFS, "--benchmark_repetitions=500", f"--benchmark_out={out}", f"--journal={journal}"]
    process = subprocess.Popen(
        [program, *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Under nohup it would be ignored, as it should.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and not (journal.exists() and len(journal.read_text().splitlines()) > 3):
            time.sleep(0.05)
        for receiver in receivers:
            (os.killpg if receiver == "group" else os.kill)(process.pid, number)
        _, stderr = process.communicate(timeout=600)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 128 + number
    assert f"signal {int(number)}" in stderr
    json.loads(out.read_text())  # whole, although the run was not


def test_a_machine_that_stays_busy_is_reported(run: Run) -> None:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        done = run(*TINY, "--wait_quiet=1")
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert done.returncode == 0, done.stderr
    assert "after 1 s other programs still use the processors; measuring anyway" in done.stderr


def test_compare_py_reads_two_real_results(run: Run, tmp_path: Path) -> None:
    compare = Path("/usr/share/benchmark/compare.py")
    if not compare.exists():
        pytest.skip("compare.py is not installed: apt-get install libbenchmark-tools")
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        assert run(*TINY, f"--benchmark_out={file}", "--benchmark_repetitions=9").returncode == 0
    command: list[str | Path] = [ROOT / ".venv" / "bin" / "python", compare, "benchmarks", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "matmul/impl:eager/dtype:fp32/n:16_pvalue" in done.stdout
    assert "U Test, Repetitions: 9 vs 9" in done.stdout
