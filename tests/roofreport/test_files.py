# SPDX-License-Identifier: Apache-2.0
"""Files are complete or absent, and other users cannot redirect them."""

from __future__ import annotations

import os
import re
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import builders
import pytest
from roofreport import files
from roofreport.cli import main
from roofreport.compare import abba, saved_state
from roofreport.errors import UnusableInputError
from roofreport.verbs.common import append_lines


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("before", ["", "a,b\n1,2", "a,b\n1,2\n"])
def test_lines_are_appended_whole(tmp_path: Path, before: str) -> None:
    path = tmp_path / "folder" / "table.csv"
    if before:
        path.parent.mkdir()
        path.write_text(before)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, limits[1]))
    try:
        with pytest.raises(UnusableInputError, match=r"cannot write .*table\.csv: File too large"):
            append_lines(path, "3,4\n5,6\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == before
    append_lines(path, "3,4\n5,6\n")
    assert path.read_text() == "".join(f"{line}\n" for line in [*before.split(), "3,4", "5,6"])


def test_a_link_is_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "folder/target.csv", tmp_path / "link.csv"
    target.parent.mkdir()
    for _ in range(2):  # one that leads nowhere yet, and one that leads to a file
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert main(["table", str(builders.write_json(tmp_path / "a.json")), "--format=csv", f"--output={link}"]) == 0
        assert link.is_symlink()
        assert target.read_text().startswith("case,")


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Path]:
    """A folder as /tmp, in which another user has put links: `file` and `none` lead to files of ours, `folder` to a
    folder. Nothing there may change.
    """
    if os.geteuid() != 0:
        pytest.skip("lchown needs root")
    ours, shared = tmp_path / "ours", tmp_path / "shared"
    ours.mkdir()
    shared.mkdir()
    shared.chmod(0o1777)
    (ours / "file").write_text("precious")
    for name, target in (("file", ours / "file"), ("none", ours / "none"), ("folder", ours)):
        (shared / name).symlink_to(target)
        os.lchown(shared / name, 65534, 65534)
    yield shared
    assert [(one.name, one.read_text()) for one in ours.iterdir()] == [("file", "precious")]


@pytest.mark.parametrize("name", ["file", "none", "folder/new"])
@pytest.mark.parametrize(
    "command",
    [
        "table RESULT --format=csv --output=OUT",
        "roofline RESULT --html=OUT",
        "roofline RESULT --svg=OUT",
        "history add --store=OUT RESULT",
    ],
)
def test_a_link_of_another_user_is_refused(
    command: str, name: str, trap: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"RESULT": str(builders.write_json(tmp_path / "a.json")), "OUT": str(trap / name)}
    arguments = [re.sub("RESULT|OUT", lambda match: places[match[0]], part) for part in command.split()]
    assert main(arguments) == 2
    assert "is a symbolic link of another user" in capsys.readouterr().err


def test_a_link_of_another_user_is_not_appended_to(trap: Path) -> None:
    with pytest.raises(UnusableInputError, match="is a symbolic link of another user"):
        append_lines(trap / "file", "text")


@pytest.mark.parametrize("verb", ["table --output", "roofline --html", "roofline --svg", "scaling --svg"])
def test_a_guessed_name_is_not_followed(verb: str, tmp_path: Path) -> None:
    """Files that other users created under the former temporary names are neither written nor replaced."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out"
    for end in (".part", ".partial", ".tmp"):
        (tmp_path / f"out{end}").symlink_to(victim)
    rows = [builders.row(f"matmul/impl:eager/dtype:fp32/n:{n}", n / 100) for n in (256, 512, 1024)]
    name, flag = verb.split()
    assert main([name, str(builders.write_json(tmp_path / "a.json", rows)), f"{flag}={out}"]) == 0
    assert out.stat().st_size
    assert victim.read_text() == "precious"


def test_the_state_of_abba_follows_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "state.json.part").symlink_to(victim)
    saved_state.save(tmp_path / "state.json", abba.ComparisonState("key", [], 1.0, 1))
    assert victim.read_text() == "precious"
    assert saved_state.restore(tmp_path / "state.json", abba.ComparisonState) is not None


def test_names_differ_and_are_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, int]] = []
    real = os.open

    def recorded(path: str, flags: int, *more: int) -> int:
        opened.append((str(path), flags))
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", recorded)
    for _ in range(2):
        files.write_text(tmp_path / "a", "text")
    assert len({path for path, _ in opened}) == 2
    for _, flags in opened:
        assert flags & os.O_EXCL and flags & os.O_NOFOLLOW and flags & os.O_CREAT


def test_the_mode_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)
    files.write_text(path, "new")
    assert (path.read_text(), _mode(path)) == ("new", 0o640)


@pytest.mark.parametrize(
    ("owner", "before", "after"), [(None, 0o4777, 0o755), (None, 0o2660, 0o640), (65534, 0o4777, 0o644)]
)
def test_no_more_is_kept_than_the_umask_allows_and_the_owner_chose(
    owner: int | None, before: int, after: int, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    if owner is not None:
        if os.geteuid() != 0:
            pytest.skip("chown needs root")
        os.chown(path, owner, owner)
    path.chmod(before)
    mask = os.umask(0o022)
    try:
        files.write_text(path, "new")
        kept = os.umask(0o022)
    finally:
        os.umask(mask)
    assert (path.read_text(), _mode(path), path.stat().st_uid, kept) == ("new", after, os.geteuid(), 0o022)


@pytest.mark.parametrize(("mode", "after"), [(0o666, 0o644), (0o777, 0o755)])
def test_a_copy_is_of_the_content_alone(mode: int, after: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "a").chmod(0o6777)
    mask = os.umask(0o022)
    try:
        files.copy(tmp_path / "a", tmp_path / "b", mode)
    finally:
        os.umask(mask)
    assert ((tmp_path / "b").read_text(), _mode(tmp_path / "b")) == ("text", after)


def test_nothing_else_copies_a_mode() -> None:
    sources = {path: path.read_text() for path in (builders.ROOT / "tools").rglob("*.py")}
    found = [path.name for path, text in sources.items() if re.search(r"shutil\.copy(?!fileobj)|copy(mode|stat)", text)]
    assert not found, "files.copy does what is needed"


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_text(tmp_path / "a", "new")
    finally:
        os.umask(before)
    assert _mode(tmp_path / "a") == 0o640


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), files.replacing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_pipe_is_written_to_directly(tmp_path: Path) -> None:
    reader = tmp_path / "pipe"
    os.mkfifo(reader)
    descriptor = os.open(reader, os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(reader, "text")
    assert os.read(descriptor, 10) == b"text"
    os.close(descriptor)
    assert stat.S_ISFIFO(reader.stat().st_mode)


def test_a_pipe_without_a_reader_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a pipe without a reader"):
        files.write_text(tmp_path / "pipe", "text")


def test_standard_output_is_a_file(tmp_path: Path) -> None:
    builders.write_json(tmp_path / "a.json")
    module = [sys.executable, "-I", str(builders.ROOT / "tools/isolated.py"), "roofreport"]
    command = [*module, "table", str(tmp_path / "a.json"), "--format=csv", "--output=/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("case,")


def test_surrogates_are_escaped(tmp_path: Path) -> None:
    files.write_text(tmp_path / "a", "\ud800")
    assert (tmp_path / "a").read_text() == "\\ud800"


def test_a_private_folder_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files.private_folder(tmp_path / "a")
    finally:
        os.umask(before)
    assert _mode(tmp_path / "a") == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777, 0o707])
def test_a_folder_that_others_can_write_is_refused(mode: int, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(mode)
    with pytest.raises(PermissionError, match="others may write"):
        files.private_folder(tmp_path / "a")
