# SPDX-License-Identifier: Apache-2.0
"""The folder that the reports work in: the project, if they run from its tree, or else the current folder."""

from __future__ import annotations

from pathlib import Path


def root() -> Path:
    project = Path(__file__).resolve().parents[2]
    return project if (project / "tools/roofreport").is_dir() else Path.cwd()


def local_results() -> Path:
    return root() / "results/local"
