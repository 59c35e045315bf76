# SPDX-License-Identifier: Apache-2.0
"""The recipe of docs/gate.md for git bisect, in a scratch repository whose program answers in no time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import scratch_repository
from built_program import ROOT
from scratch_repository import CASE, Scratch


def _recipe() -> str:
    """With the case of the scratch repository, and as few pairs as decide."""
    _, _, rest = (ROOT / "docs/gate.md").read_text().partition("```bash\n")
    recipe = rest.partition("```")[0]
    for written, here in (
        ("--filter='^softmax/.*bf16/d:4096'", f"--filter={CASE}"),
        ("--budget=5min", "--budget=60min --pairs=10"),
    ):
        assert recipe.count(written) == 1
        recipe = recipe.replace(written, here)
    return recipe


def _searched(tmp_path: Path, made: Scratch) -> str:
    """The output of the recipe."""
    (made.path / "tools").mkdir()
    (made.path / "tools/report").symlink_to(ROOT / "tools/report")
    scratch_repository.cmake(tmp_path / "path")
    done = subprocess.run(
        ["bash", "-c", _recipe()],
        cwd=made.path,
        env=os.environ | {"PATH": f"{tmp_path / 'path'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_injected_slow_commit_is_found(tmp_path: Path) -> None:
    starter = scratch_repository.untimed_starter(tmp_path / "runs")
    made = scratch_repository.make(tmp_path / "repository", 5, 3, 1, starter)
    said = _searched(tmp_path, made)
    assert f"{made.planted} is the first bad commit" in said, said
    # One state a judged commit, the good one among them; the broken one has none.
    judged = {folder.name for folder in (tmp_path / "states").iterdir()}
    assert made.planted in judged and made.commits[1] not in judged and len(judged) < 1 + len(made.commits)


def test_a_commit_that_cannot_be_judged_is_passed_over(tmp_path: Path) -> None:
    """A program that does not have the case, and a commit that does not build, are neither good nor bad."""
    starter = scratch_repository.untimed_starter(tmp_path / "runs").replace(CASE, "other/n:1")
    made = scratch_repository.make(tmp_path / "repository", 2, 1, 0, starter)
    said = _searched(tmp_path, made)
    assert "first bad commit could be any of" in said, said
    assert all(commit in said for commit in made.commits)
