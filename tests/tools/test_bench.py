# SPDX-License-Identifier: Apache-2.0
"""tools/bench on a machine of stand-ins: the flags that it passes, its files, signals and explanations."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import builders
import pytest
from machine import Machine


def test_it_adds_the_quick_suite_and_an_output(machine: Machine) -> None:
    machine.roofbench(
        'printf "%s\\n" "$@" >"$CALLS.flags"; echo {} >"$(sed -n "s/--benchmark_out=//p" "$CALLS.flags")"'
    )
    done = machine.run("bench", "--seed=3")
    assert machine.called() == ["cmake --build --preset release --target roofbench"], "nothing else is missing"
    (written,) = (machine.root / "results/local").iterdir()
    journal = written.with_suffix(".journal.jsonl")
    assert machine.flags() == [
        "--seed=3",
        "--suite=quick",
        f"--benchmark_out={written}",
        "--benchmark_out_format=json",
        f"--journal={journal}",
        "--case_timeout=900",
    ]
    assert done.stdout.splitlines()[-2:] == ["Written:", f"  results/local/{written.name}"]


@pytest.mark.parametrize("flag", ["--suite=full", "--benchmark_filter=matmul"])
def test_flags_that_select_cases_replace_the_quick_suite(machine: Machine, flag: str) -> None:
    assert machine.run("bench", flag).returncode == 0
    assert "--suite=quick" not in machine.flags()


def test_it_lists_every_file_of_a_given_output(machine: Machine, tmp_path: Path) -> None:
    out = tmp_path / "chosen.json"
    machine.roofbench(f"echo {{}} >{out}; echo {{}} >{tmp_path}/chosen.journal.jsonl")
    done = machine.run("bench", f"--benchmark_out={out}", "--suite=quick")
    assert done.stdout.split() == ["Written:", f"{tmp_path}/chosen.journal.jsonl", str(out)]
    assert not (machine.root / "results").exists()


@pytest.mark.parametrize("flag", ["--list_axes", "--describe=json", "--benchmark_list_tests=true"])
def test_queries_write_nothing(machine: Machine, flag: str) -> None:
    done = machine.run("bench", flag)
    assert machine.flags() == [flag]
    assert "ritten" not in done.stdout


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
def test_roofbench_gets_a_signal_once_and_ends_in_order(
    machine: Machine, tmp_path: Path, number: signal.Signals, receivers: list[str]
) -> None:
    ready = tmp_path / "ready"
    machine.roofbench(
        "code=0; trap 'trap - INT; code=130' INT; trap 'trap - TERM; code=143' TERM\n"
        f"echo >{ready}; while ((code == 0)); do sleep 0.02; done; sleep 0.2\n"
        f"echo {{}} >{tmp_path}/chosen.json; exit $code"
    )
    bench = subprocess.Popen(
        [str(machine.root / "tools/bench"), f"--benchmark_out={tmp_path}/chosen.json"],
        env=machine.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 600
    while not ready.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for receiver in receivers:
        (os.killpg if receiver == "group" else os.kill)(bench.pid, number)
        time.sleep(0.1)  # two signals at the same moment would arrive as one
    output, _ = bench.communicate(timeout=600)
    assert bench.returncode == 128 + number
    assert f"{tmp_path}/chosen.json" in output


def test_resume_continues_an_interrupted_run(machine: Machine) -> None:
    journal = "$(sed -n 's/--journal=//p' \"$CALLS.flags\")"
    machine.roofbench(f'printf "%s\\n" "$@" >"$CALLS.flags"; echo "a line" >>"{journal}"; exit 137')
    done = machine.run("bench", "--seed=3", "--benchmark_context=note=two words")
    assert done.returncode == 137
    assert "tools/bench --resume continues after the last one" in done.stderr
    before = machine.flags()
    other = machine.run("bench", "--seed=4", "--benchmark_out=elsewhere.json")
    assert "tools/bench --resume --benchmark_out=elsewhere.json continues" in other.stderr

    machine.roofbench('printf "%s\\n" "$@" >"$CALLS.flags"')
    done = machine.run("bench", "--resume")
    assert done.returncode == 0, done.stderr
    assert "Resuming the run of" in done.stderr
    assert machine.flags() == [*before, "--resume"]
    assert not list((machine.root / "results/local").glob("*.unfinished"))
    again = machine.run("bench", "--resume")
    assert again.returncode == 2
    assert "there is no incomplete run to resume" in again.stderr

    done = machine.run("bench", "--resume", "--benchmark_out=elsewhere.json", "--case_timeout=5")
    assert done.returncode == 0, done.stderr
    assert machine.flags()[0] == "--seed=4"
    assert machine.flags()[-2:] == ["--case_timeout=5", "--resume"]


def test_a_new_run_names_an_incomplete_one(machine: Machine) -> None:
    machine.roofbench("exit 143")
    done = machine.run("bench")
    assert done.returncode == 143
    assert done.stdout.splitlines()[-1] == "Nothing was written."
    assert "is incomplete: tools/bench --resume continues it" in machine.run("bench").stderr


def test_a_refused_run_leaves_nothing_to_resume(machine: Machine) -> None:
    machine.roofbench("exit 2")
    assert machine.run("bench").returncode == 2
    assert not list((machine.root / "results/local").iterdir())


def test_a_missing_library_is_explained(machine: Machine) -> None:
    machine.roofbench("echo 'roofbench: error while loading shared libraries: libtorch_cpu.so' >&2; exit 127")
    done = machine.run("bench")
    assert done.returncode == 127
    assert "libtorch_cpu.so" in done.stderr
    assert "ROOFBENCH_TORCH=<its folder> tools/bench" in done.stderr


def test_an_unusable_results_folder_is_explained(machine: Machine) -> None:
    (machine.root / "results").write_text("a file")
    done = machine.run("bench")
    assert done.returncode == 2
    assert "cannot create the folder of the results" in done.stderr
    assert "--benchmark_out=FILE" in done.stderr


def test_a_device_gets_no_files_next_to_it(machine: Machine) -> None:
    assert machine.run("bench", "--benchmark_out=/dev/null").returncode == 0
    assert machine.flags() == ["--benchmark_out=/dev/null", "--suite=quick"]
    assert not list(Path("/dev").glob("null*.unfinished"))


def test_it_ends_with_a_summary_of_the_results(machine: Machine, tmp_path: Path) -> None:
    rows = [builders.row(f"norm/impl:{impl}/d:1", time) for impl, time in (("eager", 2.0), ("native", 1.0))]
    result = builders.write_json(tmp_path / "run.json", rows)
    machine.roofbench(f'for flag; do case $flag in --benchmark_out=*) cat {result} >"${{flag#*=}}" ;; esac; done')
    machine.with_reports()
    done = machine.run("bench")
    assert done.returncode == 0, done.stderr
    fastest, written = done.stdout.index("Fastest implementation"), done.stdout.index("Written:")
    assert fastest < written
    assert "2.00x eager" in done.stdout[fastest:written]


def test_the_summary_is_shown_on_the_terminal_whose_width_it_fits(machine: Machine) -> None:
    machine.roofbench('for flag; do case $flag in --benchmark_out=*) echo {} >"${flag#*=}" ;; esac; done')
    machine.script(machine.root / "tools/report", '[[ ! -t 1 ]] || echo "$1 on a terminal"')
    _, shown = machine.run_on_a_terminal("", "bench")
    assert "summary on a terminal" in shown


def test_without_json_it_summarizes_the_journal_if_that_has_measurements(machine: Machine, tmp_path: Path) -> None:
    machine.roofbench('for flag; do case $flag in --journal=*) echo {} >"${flag#*=}" ;; esac; done')
    machine.script(machine.root / "tools/report", 'echo "report $*" >>"$CALLS"')
    done = machine.run("bench", f"--benchmark_out={tmp_path}/run.csv", "--benchmark_out_format=csv")
    assert machine.called()[-1] == f"report summary {tmp_path}/run.journal.jsonl"
    assert "No summary" not in done.stderr
    assert done.stdout.lstrip().startswith("Written:")
