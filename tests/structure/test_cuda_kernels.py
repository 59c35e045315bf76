# SPDX-License-Identifier: Apache-2.0
"""Every CUDA kernel is accounted for: listed in the table of kernels that have not run on a GPU, or removed from it
after a run.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from kernel_code.sources import kernels

ROOT = Path(__file__).resolve().parents[2]

# Kernels that a GPU has run without a fault, and which one: tools/gpu_check --accept moves them here from the table.
VERIFIED: dict[str, str] = json.loads(Path(__file__).with_name("verified_kernels.json").read_text())


@pytest.fixture(scope="module")
def rows(program: Path) -> dict[str, str]:
    """Kernel -> file, as the program lists them: "  GemvRows  (lib/kernels/cuda/gemv_cuda.cu)  gemv/impl:native"."""
    listed = subprocess.run([program, "--list_axes"], check=True, capture_output=True, text=True).stdout
    table = listed.partition("\nunverified: ")[2]
    return dict(re.findall(r"^  (\w+)  \((\S+)\)", table, re.MULTILINE))


def test_every_kernel_is_in_the_table_or_verified(rows: dict[str, str]) -> None:
    assert kernels(ROOT), "the kernels were not found"
    listed = {name: file for name, file in rows.items() if file.endswith(".cu")}
    ran = {name: file for name, file in kernels(ROOT).items() if name in VERIFIED}
    assert {**listed, **ran} == kernels(ROOT)
    assert all((ROOT / file).is_file() for file in rows.values())


def test_no_kernel_is_both(rows: dict[str, str]) -> None:
    assert not set(VERIFIED) & set(rows)
