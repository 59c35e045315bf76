# SPDX-License-Identifier: Apache-2.0
"""Many writers at once, and writers that are killed. At length: helpers/history_load.py, started by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import history_load
import pytest


def _loaded(*arguments: str, status: int = 0) -> dict[str, Any]:
    """Runs history_load in a separate process, without state that its forks would copy."""
    done = subprocess.run(
        [sys.executable, Path(history_load.__file__), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("runs", [2, pytest.param(50, marks=pytest.mark.nightly)])
def test_eight_writers_lose_and_double_nothing(where: str, runs: int) -> None:
    found = _loaded("writers", where, "--processes=8", f"--runs={runs}")
    assert (found["runs"], found["lost"], found["doubled"], found["faults"]) == (8 * runs + 1, 0, 0, [])


def test_a_writer_killed_before_any_statement_leaves_a_whole_history(where: str) -> None:
    found = _loaded("kills", where)
    assert found["faults"] == []
    assert found["killed"] > 8
