# SPDX-License-Identifier: Apache-2.0
"""docs/python.md and python/examples do what they say."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import documents
import pytest
from built_program import ROOT

PAGE = ROOT / "docs" / "python.md"
EXAMPLES = ROOT / "python" / "examples"
# A line of a result: 'softmax   5.27 ms   2.0 GFLOP/s …   +-0.8 %'.
LINE = re.compile(r"^\S+ +[0-9.]+ (ns|µs|ms|s) .*\+-[0-9.]+ %", re.MULTILINE)


@pytest.mark.slow
def test_the_python_of_the_page_runs(run_python: Callable[..., Any], tmp_path: Path) -> None:
    """One block after another, as in a notebook."""
    (tmp_path / "page.py").write_text("\n".join([*documents.blocks(PAGE, "python"), "print(training_step())"]))
    done = run_python("page.py")
    assert done.returncode == 0, done.stderr
    assert LINE.search(done.stdout)
    assert re.search(r"^step  ( +\S+){2} ", done.stdout, re.MULTILINE), "no failure"
    assert "hurried  failed: " in done.stdout
    assert re.search(r"\b(FASTER|SLOWER|SAME|AMBIGUOUS)\b", done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "needs", "shows"),
    [
        ("numpy_softmax.py", "numpy", LINE),
        (
            "compiled_gelu.py",
            "torch",
            re.compile(r"^mlp/impl:eager .*\n(.*\n)*.*(FASTER|SLOWER|SAME|AMBIG)|^skipped: "),
        ),
        ("triton_add.py", "torch", re.compile(r"^skipped: .+|^add/impl:triton ", re.MULTILINE)),
    ],
)
def test_examples_run(example: str, needs: str, shows: re.Pattern[str], run_python: Callable[..., Any]) -> None:
    assert importlib.util.find_spec(needs)
    done = run_python(EXAMPLES / example)
    assert done.returncode == 0, done.stderr
    assert shows.search(done.stdout), done.stdout


@pytest.mark.slow
def test_the_files_of_families_and_tests_run(run_python: Callable[..., Any]) -> None:
    quickly = ("--max_time=0.01", "--max_warmup_time=0.01")
    done = run_python(
        "-m", "roofbench", "run", EXAMPLES / "families.py", "--axis=n=32", "--axis=elements=1024", *quickly
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(LINE.findall(done.stdout)) == 6
    plugins = ("-p", "roofbench._pytest", "-p", "no:cacheprovider", "--import-mode=importlib")
    done = run_python("-m", "pytest", *plugins, "-q", EXAMPLES / "test_kernels.py")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


@pytest.mark.slow
def test_families_of_the_program_have_its_names(run_python: Callable[..., Any], program: Path) -> None:
    listed = subprocess.run(
        [program, "--suite=full", "--benchmark_list_tests"], capture_output=True, text=True, check=True
    )
    ours = run_python("-m", "roofbench", "run", EXAMPLES / "same_as_program.py", "--list")
    assert ours.returncode == 0, ours.stderr
    assert len(ours.stdout.split()) == 4
    assert set(ours.stdout.split()) <= set(listed.stdout.split())


@pytest.mark.slow
def test_a_range_is_in_the_profile_and_costs_no_import(run_python: Callable[..., Any]) -> None:
    done = run_python("-c", "import sys, roofbench\nwith roofbench.profile(): assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr
    text = """
import torch, roofbench
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
    with roofbench.profile("load"):
        torch.ones(10)
print([event.key for event in found.key_averages()])
"""
    assert "'load'" in run_python("-c", text).stdout
