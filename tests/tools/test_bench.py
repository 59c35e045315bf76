# SPDX-License-Identifier: Apache-2.0
"""tools/bench on a machine of stand-ins: the flags that it passes, signals, reports and explanations. The program names
the files of a run: tests/program/test_results_folder.py."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import builders
import pytest
from machine import Machine

# Writes the file of a run, a record, and the list of them.
_WRITES = (
    'printf "%s\\n" "$@" >"$CALLS.flags"; for flag; do case $flag in --written_to=*) list=${flag#*=} ;; esac; done; '
    'folder=$(sed -n "s/--results=//p" "$CALLS.flags"); mkdir -p "$folder"; record="$folder/run.journal.jsonl"; '
    'cat "$CALLS.record" >"$record"; printf "%s\\n" "$record" "$folder/run.json" >"$list"'
)


def test_the_program_gets_all_flags_after_its_folder(machine: Machine) -> None:
    done = machine.run("bench", "--seed=3", "--resume")
    assert machine.called() == ["cmake --build --preset release --target roofbench"], "nothing else is missing"
    folder, listed, *given = machine.flags()
    assert folder == f"--results={machine.root}/results/local"
    assert listed.startswith("--written_to=") and not Path(listed.partition("=")[2]).exists(), "removed at the end"
    assert given == ["--seed=3", "--resume"]
    assert (done.returncode, done.stdout) == (0, ""), "nothing is listed, as after a question"


def test_help_needs_no_build(machine: Machine) -> None:
    done = machine.run("bench", "--help")
    assert done.returncode == 0, done.stderr
    assert machine.flags() == ["--help"]
    (machine.root / "build/release/bin/roofbench").unlink()
    done = machine.run("bench", "--help")
    assert done.returncode == 0, done.stderr
    assert "tools/bench [flags…]" in done.stdout
    assert "once it is built" in done.stdout
    assert not machine.calls.exists(), "it builds nothing"


@pytest.mark.parametrize(
    ("number", "receivers"),
    [
        (signal.SIGINT, ["group"]),
        (signal.SIGINT, ["script", "group"]),
        (signal.SIGTERM, ["script"]),
        (signal.SIGTERM, ["script", "group"]),
    ],
)
def test_roofbench_gets_a_signal_and_ends_in_order(
    machine: Machine, tmp_path: Path, number: signal.Signals, receivers: list[str]
) -> None:
    ready = tmp_path / "ready"
    machine.roofbench(
        "code=0; trap 'trap \"\" INT; code=130' INT; trap 'trap \"\" TERM; code=143' TERM\n"
        f"echo >{ready}; while ((code == 0)); do sleep 0.02; done; sleep 0.2; echo >{tmp_path}/whole; exit $code"
    )
    bench = subprocess.Popen(
        [str(machine.root / "tools/bench")],
        env=machine.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 600
    while not ready.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for receiver in receivers:
        (os.killpg if receiver == "group" else os.kill)(bench.pid, number)
        time.sleep(0.1)  # two signals at the same moment would arrive as one
    assert bench.wait(timeout=600) == 128 + number
    assert (tmp_path / "whole").exists(), "the script waits for it"


def test_a_missing_library_is_explained(machine: Machine) -> None:
    machine.roofbench("echo 'roofbench: error while loading shared libraries: libtorch_cpu.so' >&2; exit 127")
    done = machine.run("bench")
    assert done.returncode == 127
    assert "libtorch_cpu.so" in done.stderr
    assert "ROOFBENCH_TORCH=<its folder> tools/bench" in done.stderr


def test_it_ends_with_a_page_a_summary_and_the_files(machine: Machine) -> None:
    lines = [builders.line(f"norm/impl:{impl}/d:1", time) for impl, time in (("eager", 2.0), ("native", 1.0))]
    Path(f"{machine.calls}.record").write_text(builders.journal_text(builders.header(), *lines))
    machine.roofbench(f"{_WRITES}; exit 1")
    machine.with_reports()
    done = machine.run("bench")
    assert done.returncode == 1, done.stderr
    fastest, written = done.stdout.index("Fastest implementation"), done.stdout.index("Written:")
    assert fastest < written
    assert "2.00x eager" in done.stdout[fastest:written]
    names = ("run.journal.jsonl", "run.json", "run.html")
    assert done.stdout[written:].split()[1:] == [f"results/local/{name}" for name in names]
    assert "<html" in (machine.root / "results/local/run.html").read_text()


@pytest.mark.parametrize("suite", ["machine", "machine_quick"])
def test_the_machine_suite_ends_with_the_passport_and_its_page(suite: str, machine: Machine) -> None:
    lines = [builders.line(builders.MATMUL, 10.0)]
    Path(f"{machine.calls}.record").write_text(builders.journal_text(builders.header(suite=suite), *lines))
    machine.roofbench(_WRITES)
    machine.with_reports()
    done = machine.run("bench", f"--suite={suite}")
    assert done.returncode == 0, done.stderr
    passport, written = done.stdout.index("Passport of Test CPU"), done.stdout.index("Written:")
    assert passport < done.stdout.index("What the machine allows published models") < written
    assert "Fastest implementation" not in done.stdout
    assert done.stdout[written:].split()[-1] == "results/local/run.html"
    assert "<h1>Passport of" in (machine.root / "results/local/run.html").read_text()


def test_the_summary_is_shown_on_the_terminal_whose_width_it_fits(machine: Machine) -> None:
    Path(f"{machine.calls}.record").touch()
    machine.roofbench(_WRITES)
    machine.script(machine.root / "tools/report", '[[ ! -t 1 ]] || echo "$1 on a terminal"')
    _, shown = machine.run_on_a_terminal("", "bench")
    assert "summary on a terminal" in shown


def test_a_report_that_fails_costs_nothing_else(machine: Machine) -> None:
    Path(f"{machine.calls}.record").touch()
    machine.roofbench(_WRITES)
    machine.script(machine.root / "tools/report", "exit 2")
    done = machine.run("bench")
    assert done.returncode == 0
    assert "No roofline page" in done.stderr and "No summary: tools/report summary " in done.stderr
    assert done.stdout.split() == ["Written:", "results/local/run.journal.jsonl", "results/local/run.json"]
