# SPDX-License-Identifier: Apache-2.0
"""The commands that pages and messages print: each measures what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import roofbench
import tiny_checkpoint
from built_program import PROGRAM, QUICKLY, ROOT, Run
from roofreport.compare import rerun
from roofreport.history.record import of_file, run_of
from roofreport.io.load import load
from roofreport.verbs import results

pytestmark = pytest.mark.slow  # each test is several runs

# Of those that help lists under these headings: what chooses cases, and what a record or a report does without.
_HEADINGS = ("What to run", "Flags of single families")
_NOT_REPEATED = {
    *("suite", "benchmark_filter", "case_timeout", "rank_timeout", "supervise"),
    *("list_axes", "benchmark_list_tests", "describe_checkpoint"),
}


def test_each_flag_that_decides_what_is_measured_is_repeated(run: Run) -> None:
    groups = re.split(r"\n\n(?=\S)", run("--help=all").stdout)
    flags = {
        heading: set(re.findall(r"^  --(\w+)", text, re.M)) for heading, _, text in (g.partition("\n") for g in groups)
    }
    deciding = set().union(*(flags[heading] for heading in _HEADINGS))
    assert deciding - _NOT_REPEATED == deciding & rerun.REPEATED
    assert set().union(*flags.values()) >= rerun.REPEATED


def _listed(record: Path, folder: Path, **environment: str) -> None:
    """The last line that a page prints selects the case alone."""
    (case,) = load(record).cases
    *_, line = rerun.shell_lines(run_of(of_file(record)), case.name)
    command = [sys.executable if word == "python" else word for word in shlex.split(line)]
    done = subprocess.run(
        [*command, "--benchmark_list_tests"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.stdout.split() == [case.name], done.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("--benchmark_filter=^softmax/impl:native/dtype:fp32", "--axis=softmax.d=300"),
        ("--benchmark_filter=^mlp/dtype:fp32.*ddp_flat", "--ranks=3", "--axis=mlp.d=32", "--axis=mlp.batch=4"),
    ],
)
def test_the_command_of_a_page_selects_its_case(flags: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    record = tmp_path / "night.jsonl"
    done = run(*flags, *QUICKLY, f"--journal={record}")
    assert done.returncode == 0, done.stderr
    _listed(record, ROOT)


@pytest.mark.slow  # importing torch and transformers takes seconds
def test_the_command_of_a_page_names_the_checkpoint(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "a checkpoint"
    tiny_checkpoint.write(folder)
    record = tmp_path / "night.jsonl"
    chosen = ("--benchmark_filter=^complete/", "--axis=complete.precision=fp32", "--axis=complete.new=3")
    done = run(f"--checkpoint={folder}", *chosen, *QUICKLY, f"--journal={record}")
    assert done.returncode == 0, done.stderr
    _listed(record, ROOT)


def test_the_command_of_a_python_case_is_that_of_its_file(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(Path(roofbench.__file__).parents[1]), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    (tmp_path / "my kernels.py").write_text(
        "import roofbench\n\n@roofbench.family(n=[4, 8])\ndef sorting(n):\n    data = list(range(n))\n"
        "    return roofbench.Case(sorted, data)\n"
    )
    words = ["run", "--axis", "n=300", "my kernels.py", "--max_samples=3", "--journal=night.jsonl"]
    done = subprocess.run(
        [sys.executable, "-m", "roofbench", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    _listed(tmp_path / "night.jsonl", tmp_path, **environment)


@pytest.mark.parametrize("command", [results.MEASURES_RANKS, results.MEASURES_BATCHES])
def test_the_command_of_a_message_selects_what_the_report_needs(command: str, run: Run) -> None:
    program, *flags = shlex.split(command)
    done = run(*flags, "--benchmark_list_tests")
    assert program == PROGRAM.name and done.returncode == 0 and len(done.stdout.split()) >= 3, done.stderr
