# SPDX-License-Identifier: Apache-2.0
"""Names that a page, a spreadsheet or a parser could take for more than text, in what the gate writes."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

import builders
import histories
import pytest
from roofreport.cli import main
from roofreport.gate.verdicts import Finding
from roofreport.history.records import Machine, Run, Series, Toolchain
from roofreport.io.contract import TIME
from roofreport.render import history
from roofreport.render.history import Report
from roofreport.text import inert

NAMES = [
    *builders.HOSTILE,
    "a|b|c/n:1",
    "`code`/[link](http://x.invalid)/n:1",
    "=HYPERLINK(1)/n:1",
    "**bold**/~~gone~~/n:1",
    "$x^2$/&lt;b&gt;/n:1",
    "@everyone/n:1",
]
ACTING = [*builders.ACTING, "a\n| b | c |", "]]>"]


def test_every_name_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = histories.add(tmp_path / "h.db", range(25), histories.rows(names=NAMES))
    histories.add(store, [25], histories.rows(dict.fromkeys(NAMES, 1.3), NAMES))
    files = {kind: tmp_path / kind for kind in ("markdown", "junit", "json")}
    assert main(["gate", f"--store={store}", *(f"--{kind}={path}" for kind, path in files.items())]) == 1
    suite = ElementTree.parse(files["junit"]).getroot()
    failed = [test.get("name") for test in suite.iter("testcase") if test.find("failure") is not None]
    assert sorted(map(str, failed)) == sorted(NAMES)
    rows = [line for line in files["markdown"].read_text().splitlines() if line.startswith("| SLOWER")]
    assert len(rows) == len(NAMES)
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) == 8
        assert not re.search(r"(?<!\\)[<>`*$~]", row.replace("@<!-- -->", ""))
    assert "@everyone" not in files["markdown"].read_text()


@pytest.mark.parametrize("name", ACTING, ids=ascii)
def test_no_character_acts(name: str) -> None:
    """A history gives such names as inert ones; tests/roofreport/test_entrances.py."""
    name = inert(name)
    machine, toolchain = Machine("0" * 12, name, {}), Toolchain("1" * 12, name, {})
    run = Run(1, "", datetime(2026, 1, 1, tzinfo=timezone.utc), name, machine, toolchain, {}, name)
    series = Series(name, "time", machine, toolchain)
    finding = Finding(series, "slower", run, 1.0, 2.0, 1.0, run, name)
    report = Report([finding], [finding], [name], [run], TIME, {}, [name])
    for text in (history.gate_text(report), history.gate_markdown([report]), history.gate_junit([report])):
        assert all(one.isprintable() or one in "\n\ufffe" for one in text)
    ElementTree.fromstring(history.gate_junit([report]))
    assert sum(line.startswith("|") for line in history.gate_markdown([report]).splitlines()) == 4
