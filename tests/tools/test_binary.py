# SPDX-License-Identifier: Apache-2.0
"""The libraries that the built program links."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

BINARY = Path(__file__).resolve().parents[2] / "build/release/bin/roofbench"


@pytest.fixture
def libraries() -> dict[str, str]:
    if not BINARY.exists():
        pytest.skip("build/release/bin/roofbench is not built")
    listed = subprocess.run(["ldd", str(BINARY)], check=True, capture_output=True, text=True, env={}).stdout
    return dict(re.findall(r"^\s*(\S+) => (.+?)(?: \(0x\w+\))?$", listed, re.MULTILINE))


def test_every_library_is_found_without_an_environment(libraries: dict[str, str]) -> None:
    assert {name for name, path in libraries.items() if path == "not found"} == set()
    assert "libtorch_cpu.so" in libraries


def test_one_openmp_runtime(libraries: dict[str, str]) -> None:
    runtimes = {path for name, path in libraries.items() if re.match(r"lib(gomp|omp|iomp)", name)}
    assert len(runtimes) == 1
