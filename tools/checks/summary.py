# SPDX-License-Identifier: Apache-2.0
"""Adds up the reports of a run of the tests: its stages, the slowest tests, failures, skips, and one line of totals.

    python tools/isolated.py checks.summary <folder>

The folder holds
  *.xml                  JUnit reports of ctest and pytest
  gtest-<preset>/*.xml   GoogleTest's reports of the programs that ctest ran, named as ctest names them
  checks.tsv             one check a line: passed, failed or skipped; name; reason
  stages.tsv             one stage a line: name, seconds, seconds of processor time
Writes durations.txt, every test with its seconds. Exits 1 if anything failed or nothing ran.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from roofreport.text import printable

SLOWEST = 10


class Result(NamedTuple):
    outcome: str
    name: str
    reason: str
    seconds: float = 0


def test_cases(path: Path) -> list[ET.Element]:
    return list(ET.parse(path).getroot().iter("testcase"))


def result_of(case: ET.Element) -> Result:
    # ctest repeats the name as the class.
    name = ".".join(dict.fromkeys(filter(None, [case.get("classname"), case.get("name")])))
    seconds = float(case.get("time") or 0)
    failure = case.find("failure")
    if failure is None:
        failure = case.find("error")
    skipped = case.find("skipped")
    if failure is not None:
        return Result("failed", name, failure.get("message", ""), seconds)
    if skipped is not None or case.get("status") in {"disabled", "notrun"}:
        reason = skipped.get("message", "") if skipped is not None else ""
        return Result("skipped", name, googletest_reason(case) or reason, seconds)
    return Result("passed", name, "", seconds)


def googletest_reason(case: ET.Element) -> str:
    """The text of GTEST_SKIP(): in a report it follows "file:line", in the output of a program "file:line: Skipped"."""
    skipped = case.find("skipped")
    place, _, reason = (skipped.get("message", "") if skipped is not None else "").partition("\n")
    if reason and place.rpartition(":")[2].isdigit():
        return reason.strip()
    lines = iter((case.findtext("system-out") or "").splitlines())
    return next((next(lines, "") for line in lines if line.endswith(": Skipped")), "")


def junit_results(path: Path) -> Iterator[Result]:
    """The tests of a program in place of the program, which still counts where it failed without a failed test."""
    preset = path.stem.removeprefix("ctest-")
    try:
        for case in test_cases(path):
            whole = result_of(case)
            report = path.parent / f"gtest-{preset}" / f"{whole.name}.xml"
            tests = [result_of(test) for test in test_cases(report)] if report.exists() else []
            if not tests or (whole.outcome == "failed" and all(test.outcome != "failed" for test in tests)):
                yield whole
            prefix = f"{preset}/" if preset != "release" else ""
            yield from (test._replace(name=prefix + test.name) for test in tests)
    except ET.ParseError as error:
        yield Result("failed", path.name, f"no report: {error}")


def rows(path: Path) -> Iterator[list[str]]:
    if path.exists():
        for line in path.read_text(errors="replace").splitlines():
            yield [*line.split("\t", 2), "", ""][:3]


def show(outcome: str, results: list[Result]) -> None:
    """A line for each reason to skip, and for each failure."""
    alike: dict[str, list[str]] = {}
    for result in results:
        if result.outcome == outcome:
            reason = (result.reason.splitlines() or [""])[0]
            alike.setdefault(reason if outcome == "skipped" and reason else result.name, []).append(
                result.name + (f" ({reason})" if reason else "")
            )
    for first, *others in alike.values():
        print(printable(f"{outcome}: {first}" + (f" and {len(others)} more" if others else ""), 1000))


def main(folder: Path) -> int:
    results = [result for path in sorted(folder.glob("*.xml")) for result in junit_results(path)]
    results += [Result(outcome, name, reason) for outcome, name, reason in rows(folder / "checks.tsv")]
    by_time = sorted(results, key=lambda result: -result.seconds)
    (folder / "durations.txt").write_text("".join(f"{r.seconds:8.2f} s  {printable(r.name, 1000)}\n" for r in by_time))
    for name, wall, processor in rows(folder / "stages.tsv"):
        print(printable(f"{wall:>6} s  {processor:>6} s of processor time  {name}", 1000))
    for result in by_time[:SLOWEST]:
        if result.seconds >= 1:
            print(printable(f"slow: {result.seconds:.1f} s  {result.name}", 1000))
    for outcome in ("skipped", "failed"):
        show(outcome, results)
    totals = Counter(result.outcome for result in results)
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 0 if totals["passed"] and not totals["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
