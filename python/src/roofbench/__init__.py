# SPDX-License-Identifier: Apache-2.0
"""roofbench for Python: the sampler, roofs and checks of the program for any function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofbench._core import version as __version__

if TYPE_CHECKING:
    from roofbench import work
    from roofbench._compare import Comparison, compare
    from roofbench._family import Axis, Case, Skip, family
    from roofbench._measure import measure
    from roofbench._profile import profile
    from roofbench._result import Result, save
    from roofbench.work import Work

__all__ = [
    "Axis",
    "Case",
    "Comparison",
    "Result",
    "Skip",
    "Work",
    "__version__",
    "compare",
    "family",
    "measure",
    "profile",
    "save",
    "work",
]

# Imported on use: `python -m roofbench --help` and pytest's start do not need numpy.
_MODULES = {
    "Axis": "_family",
    "Case": "_family",
    "Comparison": "_compare",
    "Result": "_result",
    "Skip": "_family",
    "Work": "work",
    "compare": "_compare",
    "family": "_family",
    "measure": "_measure",
    "profile": "_profile",
    "save": "_result",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    import importlib

    if name == "work":
        return importlib.import_module("roofbench.work")
    if name not in _MODULES:
        raise AttributeError(f"module 'roofbench' has no attribute {name!r}")
    return getattr(importlib.import_module(f"roofbench.{_MODULES[name]}"), name)
