# SPDX-License-Identifier: Apache-2.0
"""Finds the __global__ functions of the sources."""

from __future__ import annotations

import re
from pathlib import Path

# Launch bounds may contain a call: one level of nested parentheses.
_BOUNDS = r"(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s+)?"
_KERNEL = re.compile(rf"__global__\s+(?:void\s+{_BOUNDS}|{_BOUNDS}void\s+)(\w+)\s*\(")
_GLOBAL = re.compile(r"^[^/\n]*__global__", re.MULTILINE)


def kernels(root: Path) -> dict[str, str]:
    """The file of each __global__ function in lib."""
    found: dict[str, str] = {}
    for path in sorted([*(root / "lib").rglob("*.cu"), *(root / "lib").rglob("*.cuh")]):
        source = path.read_text(encoding="utf-8")
        names = _KERNEL.findall(source)
        if len(names) != len(_GLOBAL.findall(source)):
            raise ValueError(f"{path}: cannot find the name of a __global__ function")
        for name in names:
            if name in found:
                raise ValueError(f"two kernels are called {name}: in {found[name]} and {path}")
            found[name] = path.relative_to(root).as_posix()
    return found
