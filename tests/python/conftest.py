# SPDX-License-Identifier: Apache-2.0
"""The Python package as its users run it: a file of families, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import roofbench

ROOT = Path(__file__).resolve().parents[2]
# One process of one case takes a fifth of a second, also while other tests run.
TIMEOUT = 600

Done = subprocess.CompletedProcess[str]


@pytest.fixture
def package_env(tmp_path: Path) -> dict[str, str]:
    """Finds the package under test, and the reports; keeps nothing outside of the test's folder."""
    paths = f"{Path(roofbench.__file__).parents[1]}:{ROOT / 'tools'}"
    return os.environ | {"PYTHONPATH": paths, "XDG_CACHE_HOME": str(tmp_path / "cache"), "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def run_python(package_env: dict[str, str], tmp_path: Path) -> Callable[..., Done]:
    def run(*arguments: str | Path, **environment: str) -> Done:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=package_env | environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    return run


@pytest.fixture
def families(run_python: Callable[..., Done], tmp_path: Path) -> Callable[..., Done]:
    """Runs a file with this text: families(text, *flags)."""

    def run(text: str, *flags: str, **environment: str) -> Done:
        (tmp_path / "kernels.py").write_text(textwrap.dedent(text))
        return run_python("-m", "roofbench", "run", "kernels.py", *flags, **environment)

    return run
