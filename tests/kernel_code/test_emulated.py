# SPDX-License-Identifier: Apache-2.0
"""The tests on the stand-in for a GPU run every kernel, and the program lists these kernels as emulated."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from kernel_code.sources import kernels

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "build" / "release" / "bin" / "emulated_test"


def functions(library: str) -> dict[int, str]:
    """Names by address, without namespaces, arguments and parameters."""
    listed = subprocess.run(["nm", "-C", library], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listed.splitlines():
        address, _, rest = line.partition(" ")
        if address:
            name = rest[2:].replace("(anonymous namespace)", "").partition("(")[0].partition("<")[0]
            found[int(address, 16)] = name.split("::")[-1].split(" ")[-1]
    return found


def test_every_kernel_is_run_and_listed(program: Path, tmp_path: Path) -> None:
    if not TESTS.exists():
        pytest.skip(f"{TESTS} is not built; tools/test builds it")
    launches = tmp_path / "launches"
    subprocess.run(
        [TESTS, "--gtest_brief=1"],
        check=True,
        capture_output=True,
        env={**os.environ, "EMULATED_LAUNCHES": str(launches)},
    )
    ran = set()
    for line in launches.read_text().splitlines():
        library, address = line.rsplit(" ", 1)
        ran.add(functions(library)[int(address, 16)] if Path(library).suffix == ".so" else "of the test")
    listed = subprocess.run([program, "--list_axes"], check=True, capture_output=True, text=True).stdout
    called_emulated = set(re.findall(r"^  (\w+)  \(lib/\S+\)  emulated$", listed, re.MULTILINE))
    assert called_emulated == set(kernels(ROOT)) & ran
    assert set(kernels(ROOT)) <= ran
    assert "Reverse" in ran, "injected faults were launched, too"
