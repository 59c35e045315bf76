# SPDX-License-Identifier: Apache-2.0
"""Fixtures for every test: the built program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import browser
import pytest
from built_program import PROGRAM, Run
from playwright.sync_api import Browser

# Not by `pythonpath`, which would hide an installed roofbench, whose plugin pytest loads, from a user's tests in here.
sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "src"))

# A shell starts background programs with Ctrl-C ignored, and child processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


# pytest-xdist sets it for its workers, and programs fit their tables to it.
os.environ.pop("COLUMNS", None)
# Tests run beside each other, of which a program would tell each time that other programs take the processors.
os.environ["ROOFBENCH_WAIT_POLICY"] = "usual"


@pytest.fixture(scope="session")
def program() -> Path:
    assert PROGRAM.exists(), f"{PROGRAM} is missing: tools/test builds it"
    return PROGRAM


@pytest.fixture(scope="session")
def run(program: Path) -> Run:
    def run_program(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *flags],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, **environment},
        )

    return run_program


# Playwright allows one driver per process, so that all tests share it.
@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with ExitStack() as stack:
        try:
            launched = stack.enter_context(browser.launched())
        except FileNotFoundError as missing:
            pytest.skip(str(missing))
        yield launched
