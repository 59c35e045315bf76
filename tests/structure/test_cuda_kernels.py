"""Every CUDA kernel is known: in the table of those that no GPU has run, or taken out of it by somebody who ran it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "lib/harness/unverified.cc"

# Kernels that a GPU has run without a fault, and which one: moved here from the table.
VERIFIED: dict[str, str] = {}


def kernels() -> dict[str, str]:
    """__global__ function -> file."""
    found = {}
    for path in sorted((ROOT / "lib").rglob("*.cu")):
        source = path.read_text()
        for name in re.findall(r"__global__\s+(?:__launch_bounds__\([^)]*\)\s+)?void\s+(\w+)", source):
            assert name not in found, f"two kernels are called {name}"
            found[name] = path.relative_to(ROOT).as_posix()
    return found


def rows() -> dict[str, str]:
    source = TABLE.read_text()
    constants = dict(re.findall(r'constexpr char (k\w+)\[\] = "([^"]+)"', source))
    table = source[source.index("kTable[] = {") : source.index("};", source.index("kTable[] = {"))]
    found = re.findall(r'\{"(\w+)",\s*(?:"([^"]+)"|(k\w+))', table)
    return {name: file or constants[constant] for name, file, constant in found}


def test_every_kernel_is_in_the_table_or_verified() -> None:
    assert kernels(), "the kernels were not found"
    assert {**rows(), **{name: kernels()[name] for name in VERIFIED}} == kernels()


def test_no_kernel_is_both() -> None:
    assert not set(VERIFIED) & set(rows())
