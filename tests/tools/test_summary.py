# SPDX-License-Identifier: Apache-2.0
"""The totals line of tools/test."""

from __future__ import annotations

from pathlib import Path

import pytest
from checks import summary

CTEST = """<testsuite tests="4">
  <testcase name="Sampler.Stops" classname="Sampler.Stops" status="run"/>
  <testcase name="Sampler.Warms" classname="Sampler.Warms" status="fail"><failure message="Expected 3"/></testcase>
  <testcase name="Gpu.Copies" classname="Gpu.Copies" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[ RUN      ] Gpu.Copies&#10;copy_test.cc:3: Skipped&#10;no GPU&#10;</system-out>
  </testcase>
  <testcase name="Old" classname="Old" status="disabled"/>
</testsuite>"""

PYTEST = """<testsuites><testsuite>
  <testcase classname="tests.a" name="b"/>
  <testcase classname="tests.a" name="c"><error message="boom&#10;more"/></testcase>
</testsuite></testsuites>"""


def test_reports_and_checks_are_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ctest.xml").write_text(CTEST)
    (tmp_path / "pytest.xml").write_text(PYTEST)
    (tmp_path / "checks.tsv").write_text("passed\tmypy\t\nskipped\tclang-tidy\tnot installed\n")
    assert summary.main(tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "skipped: Gpu.Copies (no GPU)",
        "skipped: Old",
        "skipped: clang-tidy (not installed)",
        "failed: Sampler.Warms (Expected 3)",
        "failed: tests.a.c (boom)",
        "3 passed, 2 failed, 3 skipped",
    ]


def test_all_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checks.tsv").write_text("passed\tmypy\t\n")
    assert summary.main(tmp_path) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed, 0 skipped\n"


def test_nothing_ran_is_a_failure(tmp_path: Path) -> None:
    assert summary.main(tmp_path) == 1


def test_names_and_reasons_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checks.tsv").write_text("failed\ta\x1b[2J\tb\u202ec\nfailed\talone\n")
    assert summary.main(tmp_path) == 1
    out = capsys.readouterr().out
    assert "failed: a\\x1b[2J (b\\u202ec)" in out
    assert "failed: alone\n" in out


def test_a_truncated_report_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As left by a run that was killed while writing."""
    (tmp_path / "pytest.xml").write_text(PYTEST[:-30])
    (tmp_path / "checks.tsv").write_text("passed\tmypy\t\n")
    assert summary.main(tmp_path) == 1
    assert "failed: pytest.xml (no report: " in capsys.readouterr().out
