# SPDX-License-Identifier: Apache-2.0
"""tools/test --all on a machine of stand-ins: what runs with the tests, and its report."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys

import pytest
from machine import Machine

PASSED = '<testsuite><testcase classname=\\"a\\" name=\\"b\\"/></testsuite>'
# The one of ctest and pytest that is called writes its report; pytest only ends when a linter has.
TESTS = f"""
for argument; do case $argument in *.xml) report=$argument ;; esac; done
[[ $* != *"-m pytest"* ]] || until [[ -e linted ]]; do sleep 0.01; done
echo "{PASSED}" >"$report"
"""
BUSY_S = 1
BUSY = f'"{sys.executable}" -S -c "import time\nwhile time.process_time() < {BUSY_S} + 0.1: pass"'


@pytest.fixture
def complete(machine: Machine) -> Machine:
    for name in ("cp", "find", "renice", "timeout", "xargs"):
        (machine.bin / name).symlink_to(shutil.which(name) or name)
    for folder in ("lib", "benchmarks", "python", "tests", "build/asan"):
        (machine.root / folder).mkdir(exist_ok=True)
    (machine.root / "lib/a.cc").touch()
    machine.command("ctest", TESTS)
    python = machine.root / ".venv/bin/python"
    machine.script(python, f'[[ $* == *"-m pytest"* ]] || exec "{sys.executable}" "$@"\n{TESTS}')
    for linter in ("clang-format", "ruff", "check-jsonschema", "zizmor"):
        machine.script(python.with_name(linter), "exit 0")
    return machine


@pytest.mark.parametrize(("status", "totals"), [(0, "10 passed, 0 failed"), (1, "9 passed, 1 failed")])
def test_linters_and_sanitizers_run_beside_the_tests_and_count(complete: Machine, status: int, totals: str) -> None:
    complete.script(complete.root / ".venv/bin/mypy", f"{BUSY}; echo >linted; echo what mypy says; exit {status}")
    done = complete.run("test", "--all")
    assert done.returncode == status, done.stderr
    assert totals in done.stdout
    assert "what mypy says" in done.stdout
    assert {"ctest --preset release", "ctest --preset asan"} <= {
        " ".join(call.split()[:3]) for call in complete.called()
    }
    rows = (complete.root / "build/reports/stages.tsv").read_text().splitlines()
    used = {name: int(processor) for name, _, processor in (row.split("\t") for row in rows)}
    assert used["mypy"] >= BUSY_S
    assert used["ruff check"] == 0


def test_linters_that_take_too_long_are_ended_and_skipped(complete: Machine) -> None:
    complete.script(complete.root / ".venv/bin/mypy", 'echo $$ >"$PWD/pid"; echo >linted; sleep 600')
    done = complete.run("test", "--all", "--within", "0")
    assert done.returncode == 0, done.stderr
    assert "skipped: linters and sanitizers (they had not ended after 0 minutes)" in done.stdout
    assert "6 passed, 0 failed, 1 skipped" in done.stdout
    with contextlib.suppress(ProcessLookupError):
        ended = os.pidfd_open(int((complete.root / "pid").read_text()))
        assert select.select([ended], [], [], 60)[0]


def test_sanitizers_leave_what_includes_libtorch_to_the_night(complete: Machine) -> None:
    complete.script(complete.root / ".venv/bin/mypy", "echo >linted")
    assert complete.run("test", "--all").returncode == 0
    _, build, tests = [call for call in complete.called() if "--preset asan" in call]
    assert build.split("--target ")[1].split()[:2] == ["base_test", "cases_test"]
    assert "-R ^(base|cases|" in tests
    assert "models" not in build + tests
