# SPDX-License-Identifier: Apache-2.0
"""Text from a file, a name or a path does not act on the terminal."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import builders
import pytest
from reports import Report
from roofreport import terminal
from roofreport.text import escaped, printable

_REPORT = builders.ROOT / "tools/report"
_ESCAPE = "\x1b]0;owned\x07"
_PACKAGE = builders.ROOT / "tools/roofreport"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\n", "a\tb\n"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("\x9b1m\r", "\\x9b1m\\r"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
        ("\u2028\ud800", "\\u2028\\ud800"),
        ("µ ± 🙂", "µ ± 🙂"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
    ],
)
def test_what_acts_is_spelt_out(text: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert escaped(text) == shown
    terminal.show(text, end="")
    terminal.say(text)
    assert capsys.readouterr() == (shown, shown + "\n")


def test_one_line_stays_one_line() -> None:
    assert printable("a\nb\tc") == "a\\nb\\tc"
    assert printable("a" * 300).endswith("a…")


def test_text_leaves_in_one_place() -> None:
    for path in sorted(_PACKAGE.rglob("*.py")):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Name) and node.id == "print"), f"{path}:{node.lineno}: terminal.show"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.attr == "write":
                assert node.value.attr not in ("stdout", "stderr"), f"{path}:{node.lineno}: terminal.show"


@pytest.fixture
def compare_py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compare.py of Google Benchmark, which compare then names."""
    fetched = tmp_path / "benchmark"
    (fetched / "tools/gbench").mkdir(parents=True)
    (fetched / "tools/compare.py").touch()
    monkeypatch.setenv("FETCHCONTENT_SOURCE_DIR_BENCHMARK", str(fetched))


@pytest.mark.usefixtures("compare_py")
def test_the_hint_can_be_copied(tmp_path: Path, report: Report) -> None:
    path = builders.write_json(tmp_path / f"a{_ESCAPE}.json")
    *_, base, new = report.named_command(path, path)
    assert Path(base).is_file() and Path(new).is_file()
    assert Path(base).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("compare_py")
def test_the_cache_of_another_user_does_not_change_a_verdict(tmp_path: Path, report: Report) -> None:
    cache = tmp_path / "cache/roofbench"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    journal = tmp_path / "a.jsonl"
    journal.write_text(builders.journal_text())
    out = report("compare", journal, journal)
    assert "3 SAME" in out
    assert "others may write to it" in out
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(("where", "why"), [("&-", "standard output is closed"), ("/dev/full", "No space left")])
def test_an_output_that_takes_nothing_is_reported(where: str, why: str, tmp_path: Path) -> None:
    result = builders.write_json(tmp_path / "a.json")
    done = subprocess.run(
        ["sh", "-c", f"'{_REPORT}' table '{result}' >{where}"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    assert result.read_text() == builders.write_json(tmp_path / "b.json").read_text(), "nothing was written into it"


def test_a_terminal_of_few_characters(tmp_path: Path) -> None:
    result = builders.write_json(tmp_path / "a.json")
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(builders.ROOT / "tools")}
    command = [sys.executable, "-m", "roofreport", "table", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "\\xb1" in done.stdout
