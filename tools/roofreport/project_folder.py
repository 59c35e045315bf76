# SPDX-License-Identifier: Apache-2.0
"""The folder that the reports work in: the project, if they run from its tree, or else the current folder."""

from __future__ import annotations

from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[2]
_IN_TREE = (_PROJECT / "tools/roofreport").is_dir()
# What messages recommend: the command as it was installed, and a way to its packages that needs no name on PyPI.
REPORT = "tools/report" if _IN_TREE else "roofreport"
INSTALLS = "tools/setup installs it" if _IN_TREE else "pip install '.[history]' in a checkout of roofbench installs it"


def typed(program: str, project: Path = _PROJECT) -> str:
    """A program of the project as it is called from the current folder."""
    try:
        here = project.samefile(Path())
    except OSError:  # a folder that is gone
        here = False
    return program if here else str(project / program)


def reporter() -> str:
    """REPORT as it is called from the current folder."""
    return typed(REPORT) if _IN_TREE else REPORT


def missing_package(error: ModuleNotFoundError) -> str:
    return f"the Python package {error.name} is missing; {INSTALLS}"


def root() -> Path:
    return _PROJECT if _IN_TREE else Path.cwd()


def local_results() -> Path:
    return root() / "results/local"
