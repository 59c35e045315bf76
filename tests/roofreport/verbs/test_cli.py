# SPDX-License-Identifier: Apache-2.0
"""Help texts, and the wrapper."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import builders
import pytest
from roofreport.cli import VERBS, main, parser

_TOOLS = builders.ROOT / "tools"


_ACTIONS = ("add", "list", "show", "prune", "export", "verify", "migrate")


@pytest.mark.parametrize("verb", [*VERBS, "", *(f"history {action}" for action in _ACTIONS)])
def test_help_has_examples_and_fits_the_terminal(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as end:
        main([*verb.split(), "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert f"tools/report {verb}" in out
    assert "examples:" in out or " " in verb
    assert not [line for line in out.splitlines() if len(line) > 80]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [([], 2), (["nonsense"], 2), (["table"], 2), (["table", "--\x1b[2J"], 2), (["abba", "--\x1b[2J"], 125)],
)
def test_wrong_usage(arguments: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == status
    error = capsys.readouterr().err
    assert error
    assert "\x1b" not in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("params a.json b.json", "params: takes one RESULT; unrecognized arguments: b.json"),
        ("roofline a.json b.json --svg=c.svg", "roofline: takes one RESULT; unrecognized arguments: b.json"),
        ("params a.json --colums=case", "params: unrecognized arguments: --colums=case"),
        ("abba a b --colums=case", "abba: unrecognized arguments: --colums=case"),
    ],
)
def test_an_argument_too_many_is_refused_by_its_verb(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments.split())
    assert end.value.code == (125 if arguments.startswith("abba") else 2)
    usage, error = capsys.readouterr().err.rsplit("\n", 2)[:2]
    assert usage.startswith(f"usage: tools/report {arguments.split()[0]} ") and error == f"tools/report {said}"


def test_former_verbs_name_the_present_one(capsys: pytest.CaptureFixture[str]) -> None:
    for former, now in (
        ("repeat", "spread --run=PROGRAM"),
        ("samples", "spread --samples JOURNAL"),
        ("bisect", "abba, in git bisect run (docs/gate.md)"),
    ):
        assert main([former, "x"]) == 2
        error = capsys.readouterr().err
        assert error == f"tools/report: {former} is now: tools/report {now}\n"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("abba a b --benchmark_filter=x --max_time=0.5 --keep=folder", "filter max_time state"),
        ("spread --run=a --benchmark_filter=x --keep=folder", "filter state"),
        ("gate a --keep=folder", "state"),
    ],
)
def test_flags_have_the_names_of_the_program_and_of_other_verbs(arguments: str, names: str) -> None:
    words = arguments.split()
    parsed = parser("tools/report", words[0]).parse_args(words)
    values = {"filter": "x", "max_time": 0.5, "state": Path("folder")}
    assert all(getattr(parsed, name) == values[name] for name in names.split())


def _run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def test_wrapper_from_elsewhere_and_by_a_link(tmp_path: Path) -> None:
    result = builders.write_json(tmp_path / "a.json")
    link = tmp_path / "report"
    link.symlink_to(_TOOLS / "report")
    done = _run(link, "table", result)
    assert done.returncode == 0, done.stderr
    assert builders.MATMUL in done.stdout
    for study in ("error_rate", "simulated_year"):
        assert f"usage: tools/{study}" in _run(_TOOLS / study, "--help").stdout


def test_the_links_to_in_venv_are_the_tools_that_it_names() -> None:
    links = sorted(path.name for path in _TOOLS.iterdir() if path.is_symlink())
    assert ", ".join(links) in (_TOOLS / "in_venv").read_text()
    for name in links:
        assert (_TOOLS / f"{name}.py").exists() or (_TOOLS / f"roofreport/studies/{name}.py").exists()


def test_wrapper_without_environment_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    for name, first in (("report", "table"), ("error_rate", "simulate")):
        copy = tmp_path / "tools" / name
        shutil.copy(_TOOLS / name, copy)
        done = _run(copy, first, "x")
        assert done.returncode == 2
        assert "tools/setup" in done.stderr


def test_a_reader_that_has_had_enough(tmp_path: Path) -> None:
    rows = [builders.row(f"a/n:{n}", 1.0) for n in range(5000)]
    result = builders.write_json(tmp_path / "a.json", rows)
    done = subprocess.run(
        ["sh", "-c", f"'{_TOOLS / 'report'}' table '{result}' | head -1"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.stdout.startswith("case")
    assert all(line.startswith("note: ") for line in done.stderr.splitlines())
