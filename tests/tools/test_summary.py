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


# A shard with a failed test, one that crashed before it wrote its report, and one that crashed after it.
SHARDS = """<testsuite>
  <testcase name="a_test.0" classname="a_test.0" status="fail"><failure message=""/></testcase>
  <testcase name="a_test.1" classname="a_test.1" status="fail"><failure message="SIGSEGV"/></testcase>
  <testcase name="a_test.2" classname="a_test.2" status="fail"><failure message="exit"/></testcase>
</testsuite>"""
SHARD = """<testsuites><testsuite>
  <testcase classname="Sampler" name="Stops" time="2.5"/>
  <testcase classname="Sampler" name="Warms"><failure message="Expected 3"/></testcase>
  <testcase classname="Gpu" name="Copies" result="skipped"><skipped message="a_test.cc:3&#10;no GPU&#10;"/></testcase>
  <testcase classname="Gpu" name="Adds" result="skipped"><skipped message="add_test.cc:5&#10;no GPU&#10;"/></testcase>
</testsuite></testsuites>"""


def test_tests_of_a_program_count_in_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ctest-asan.xml").write_text(SHARDS)
    (tmp_path / "gtest-asan").mkdir()
    (tmp_path / "gtest-asan" / "a_test.0.xml").write_text(SHARD)
    (tmp_path / "gtest-asan" / "a_test.2.xml").write_text('<testsuites><testcase classname="B" name="c"/></testsuites>')
    (tmp_path / "stages.tsv").write_text("build/asan\t70\t130\n")
    assert summary.main(tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "    70 s     130 s of processor time  build/asan",
        "slow: 2.5 s  asan/Sampler.Stops",
        "skipped: asan/Gpu.Copies (no GPU) and 1 more",
        "failed: asan/Sampler.Warms (Expected 3)",
        "failed: a_test.1 (SIGSEGV)",
        "failed: a_test.2 (exit)",
        "2 passed, 3 failed, 2 skipped",
    ]
    assert (tmp_path / "durations.txt").read_text().startswith("    2.50 s  asan/Sampler.Stops\n")


def test_something_must_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert summary.main(tmp_path) == 1
    (tmp_path / "checks.tsv").write_text("passed\tmypy\t\n")
    assert summary.main(tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"


def test_names_and_reasons_do_not_act_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checks.tsv").write_text("failed\ta\x1b[2J\tb\u202ec\nfailed\talone\n")
    assert summary.main(tmp_path) == 1
    out = capsys.readouterr().out
    assert "failed: a\\x1b[2J (b\\u202ec)" in out
    assert "failed: alone\n" in out


def test_a_report_that_is_cut_off_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run was killed while it wrote its report."""
    (tmp_path / "pytest.xml").write_text(PYTEST[:-30])
    (tmp_path / "checks.tsv").write_text("passed\tmypy\t\n")
    assert summary.main(tmp_path) == 1
    assert "failed: pytest.xml (no report: " in capsys.readouterr().out
