# SPDX-License-Identifier: Apache-2.0
"""A short run of the fuzzer of results and journals, and a check that it detects its targets."""

from __future__ import annotations

from pathlib import Path

import fuzz_results
import pytest
from roofreport import cli


@pytest.mark.slow
def test_no_verb_breaks_on_mutated_results(tmp_path: Path) -> None:
    broken, fuzzer = fuzz_results.fuzz(seed=2, numbers=range(60), folder=tmp_path)
    assert broken == []
    assert fuzzer.statuses[0] and fuzzer.statuses[2], "some files are read, and some are refused"


def test_a_whole_file_is_read_by_every_verb(tmp_path: Path) -> None:
    fuzzer = fuzz_results.Fuzzer(0, tmp_path)
    assert fuzzer.given((tmp_path / "good.json").read_bytes(), 1) == []
    assert set(fuzzer.statuses) == {0, 1}, "1: compare finds a failed case"


_CHECKS = [
    (fuzz_results.check_csv, "a,=1\n"),
    (fuzz_results.check_csv, "-1+2,b\n"),
    (fuzz_results.check_latex, "a \\\\\n[5cm] \\\\\n"),
    (fuzz_results.check_terminal, "a\x1b[2J"),
    (fuzz_results.check_terminal, "\u202e"),
    (fuzz_results.check_svg, '<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>'),
    (fuzz_results.check_page, "<html><meta><meta><meta><style></style><script></script><svg onload=x></svg></html>"),
    (fuzz_results.check_page, "<html><meta><meta><meta><meta><style></style><script></script></html>"),
]


@pytest.mark.parametrize(("check", "text"), _CHECKS)
def test_it_notices(check: fuzz_results.Check, text: str) -> None:
    with pytest.raises(fuzz_results.Broken):
        check(text)


def _raises(args: object) -> int:
    raise ZeroDivisionError


def _hangs(args: object) -> int:
    while True:
        pass


@pytest.mark.parametrize(("verb", "why"), [(_raises, "ZeroDivisionError"), (_hangs, "not finished")])
def test_it_notices_a_verb_that_breaks(verb: object, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from roofreport.verbs import results

    monkeypatch.setitem(results.VERBS, "spread", results.VERBS["spread"]._replace(run=verb))  # type: ignore[arg-type]
    with pytest.raises(fuzz_results.Broken, match=why):
        fuzz_results.run(["spread", "x"], None, tmp_path / "out", limit=0.05)
    assert "spread" in cli.VERBS
