# SPDX-License-Identifier: Apache-2.0
"""tools/report bisect over a scratch repository, whose program answers in no time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import scratch_repository
from roofreport.bisect.repository import Recipe, Repository
from roofreport.cli import main
from roofreport.site.data import commit_log
from scratch_repository import BUILD, CASE, PROGRAM, Scratch, git


def _made(tmp_path: Path, count: int, plant: int, broken: int | None = None) -> Scratch:
    starter = scratch_repository.untimed_starter(tmp_path / "runs")
    return scratch_repository.make(tmp_path / "repository", count, plant, broken, starter)


def _bisect(made: Scratch, tmp_path: Path, good: str = "good", bad: str = "HEAD", *more: str) -> int:
    flags = [f"--filter={CASE}", f"--build={BUILD}", f"--program={PROGRAM}", f"--repository={made.path}"]
    return main(["bisect", good, bad, *flags, f"--state={tmp_path / 'state'}", "--pairs=10", "--budget=60min", *more])


@pytest.mark.nightly
def test_the_injected_slow_commit_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = _made(tmp_path, 4, 2, broken=0)
    assert _bisect(made, tmp_path) == 0
    out = capsys.readouterr().out
    assert f"commit {made.planted[:12]} Change 2" in out
    assert "SLOWER" in out
    assert "4 builds" in out or "3 builds" in out
    assert not (tmp_path / "state" / "tree").exists()
    runs = int((tmp_path / "runs").read_text())
    # Known results must not be measured again.
    assert _bisect(made, tmp_path) == 0
    assert f"commit {made.planted[:12]} Change 2" in capsys.readouterr().out
    assert int((tmp_path / "runs").read_text()) == runs
    # The state is of this search alone.
    assert _bisect(made, tmp_path, "good", "HEAD", "--flag=--seed=9") == 2
    assert "holds another search" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("good", "bad", "state", "said"),
    [
        ("nothing", "HEAD", "", "no commit of"),
        ("HEAD", "good", "", "does not come before"),
        ("HEAD", "HEAD", "", "does not come before"),
        ("good", "HEAD", "{", "is damaged"),
        ("good", "HEAD", "[]", "is damaged"),
        ("good", "HEAD", '{"key": 1, "outcomes": {}}', "is damaged"),
        ("good", "HEAD", '{"key": "", "outcomes": {"a": {"kind": "odd"}}}', "is damaged"),
    ],
)
def test_invalid_commits_and_states_are_refused(
    good: str, bad: str, state: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if state:
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "bisect.json").write_text(state)
    assert _bisect(_made(tmp_path, 2, 1), tmp_path, good, bad) == 2
    assert said in capsys.readouterr().err


def test_a_subject_is_no_commit(tmp_path: Path) -> None:
    """A line's end to some programs, an argument for git, and an empty text."""
    made = _made(tmp_path, 1, 0)
    subjects = ["a\u2028--orphan b", "a\x0c--detach", "a\x85" + "0" * 40 + " b", ""]
    for subject in subjects:
        git(made.path, "commit", "--quiet", "--allow-empty", "--allow-empty-message", "-m", subject)
    repository = Repository(made.path, tmp_path / "state", Recipe(BUILD, PROGRAM))
    found = repository.between(repository.commit("good"), repository.commit("HEAD"))
    assert [commit.subject for commit in found] == ["Change 0", *subjects]
    assert all(re.fullmatch("[0-9a-f]{40}", commit.id) for commit in found)


def test_a_signed_commit_is_one_commit(tmp_path: Path) -> None:
    """Where the user's settings show signatures, of which the branch says what it wants."""
    made = _made(tmp_path, 2, 1)
    plain = git(made.path, "cat-file", "commit", "HEAD")
    signed = re.sub("(?m)^(committer .*)$", r"\1\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x", plain, count=1)
    written = git(made.path, "hash-object", "-t", "commit", "-w", "--stdin", given=f"{signed}\n")
    git(made.path, "reset", "--quiet", "--hard", written)
    speaker = tmp_path / "gpg"
    speaker.write_text("#!/bin/sh\necho good: no, bad >&2\n")
    speaker.chmod(0o755)
    for name, value in (("log.showSignature", "true"), ("gpg.program", speaker)):
        git(made.path, "config", name, str(value))
    repository = Repository(made.path, tmp_path / "state", Recipe(BUILD, PROGRAM))
    last = repository.commit("HEAD")
    found = repository.between(repository.commit("good"), last)
    assert [commit.subject for commit in found] == ["Change 0", "Change 1"] and found[-1] == last
    assert [subject for _, subject in commit_log(made.path)][:2] == ["Change 1", "Change 0"]


@pytest.mark.parametrize("build", ["rm .git", ""], ids=["a build removes it", "it never was one"])
def test_the_repository_around_a_lost_work_tree_stays(
    tmp_path: Path, build: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = _made(tmp_path, 3, 1)
    state = made.path / "state"
    if not build:
        (state / "tree").mkdir(parents=True)
    (made.path / "work").write_text("not committed\n")
    assert _bisect(made, tmp_path, "good", "HEAD", f"--state={state}", f"--build={build or ':'} && {BUILD}") == 2
    assert "is not a work tree of git" in capsys.readouterr().err
    assert (made.path / "work").read_text() == "not committed\n"


def test_a_failed_build_names_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = _made(tmp_path, 2, 1, broken=1)
    assert _bisect(made, tmp_path) == 2
    assert "its build ended with 1" in capsys.readouterr().err
    assert list((tmp_path / "state" / "built").glob("*.log"))
