# SPDX-License-Identifier: Apache-2.0
"""Help, lists, refusals and signals of the built program."""

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
from built_program import ROOT, TINY, Run


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
        flags = shlex.split(example)
        listed = run(*flags, "--benchmark_list_tests")
        assert listed.returncode == 0, (example, listed.stderr)
        assert listed.stdout


# Storage that does not exist, or that another choice of axes names already: a skipped case with a reason.
@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ("precision=bf16 keep=o_proj", "precision:bf16 quantizes none"),
        ("precision=int8 keep=lm_head head=quantised", "keep:lm_head and head:quantised ask for two different heads"),
        ("precision=llm_int8 keep=o_proj+lm_head", "leave lm_head out of keep"),
        ("precision=llm_int8 activations=int8", "for int8 and int4 weights, not for llm_int8"),
        ("precision=bf16 activations=fp16", "for quantized weights, as weights in fp16 have them; not for bf16"),
    ],
)
def test_storage_that_cannot_be(run: Run, axes: str, why: str) -> None:
    chosen = [f"--axis=decode.{axis}" for axis in ("impl=eager", "model=tiny_llama", "depth=8", *axes.split())]
    done = run("--benchmark_filter=^decode/", "--benchmark_format=json", *chosen)
    cases = json.loads(done.stdout)["benchmarks"]
    assert cases
    for case in cases:
        assert why in case["error_message"], case


def test_axes_and_counters_are_listed(run: Run) -> None:
    axes = run("--list_axes")
    assert axes.returncode == 0
    for family in ("copy:", "read:", "matmul:", "mlp:", "harness_overhead:"):
        assert f"\n{family}" in f"\n{axes.stdout}"
    assert "roof " in run("--explain_counters").stdout


def test_a_size_of_ones_own(run: Run) -> None:
    done = run("--benchmark_filter=matmul/.*fp32", "--axis=matmul.n=3000", "--benchmark_list_tests", "--suite=quick")
    assert done.stdout.splitlines()[0] == "matmul/impl:eager/dtype:fp32/n:3000"


def test_a_variable_of_older_versions_means_nothing(run: Run) -> None:
    assert run(*TINY, ROOFBENCH_RESTARTED="15").returncode == 0


# A terminal signals the whole group, `timeout` the program and then its group: that is one signal.
@pytest.mark.parametrize("receivers", [["program"], ["group"], ["program", "group"]])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_in_order(program: Path, tmp_path: Path, number: signal.Signals, receivers: list[str]) -> None:
    out = tmp_path / "out.json"
    journal = tmp_path / "run.jsonl"
    flags = [*TINY[:5], "--benchmark_repetitions=500", f"--benchmark_out={out}", f"--journal={journal}"]
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


def test_a_quiet_machine_is_waited_for_and_missed_aloud(run: Run) -> None:
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
    python = ROOT / ".venv" / "bin" / "python"
    done = subprocess.run(
        [python, compare, "benchmarks", *files], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "matmul/impl:eager/dtype:fp32/n:16_pvalue" in done.stdout
    assert "U Test, Repetitions: 9 vs 9" in done.stdout
