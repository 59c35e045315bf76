# SPDX-License-Identifier: Apache-2.0
"""roofbench for Python: the sampler, roofs and checks of the program for any function."""

from roofbench import work
from roofbench._compare import Comparison, compare
from roofbench._core import version as __version__
from roofbench._family import Axis, Case, Skip, family
from roofbench._machine import profile
from roofbench._measure import measure
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
