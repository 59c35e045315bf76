# SPDX-License-Identifier: Apache-2.0
"""Prints the failed and skipped results of JUnit reports and a table of checks, and one line of totals.

    python tools/isolated.py checks.summary <folder>

The folder contains *.xml (ctest, pytest) and checks.tsv, one line for each check: outcome, name, reason.
Exits 1 if anything failed or nothing ran.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from roofreport.text import printable


class Result(NamedTuple):
    outcome: str
    name: str
    reason: str


def junit_results(path: Path) -> Iterator[Result]:
    try:
        root = ET.parse(path).getroot()
    except ET.ParseError as error:
        yield Result("failed", path.name, f"no report: {error}")
        return
    for case in root.iter("testcase"):
        # ctest repeats the name as the class.
        name = ".".join(dict.fromkeys(filter(None, [case.get("classname"), case.get("name")])))
        failure = case.find("failure")
        if failure is None:
            failure = case.find("error")
        skipped = case.find("skipped")
        if failure is not None:
            yield Result("failed", name, failure.get("message", ""))
        elif skipped is not None or case.get("status") in {"disabled", "notrun"}:
            reason = skipped.get("message", "") if skipped is not None else ""
            yield Result("skipped", name, googletest_reason(case) or reason)
        else:
            yield Result("passed", name, "")


def googletest_reason(case: ET.Element) -> str:
    """The text of GTEST_SKIP() << …, which GoogleTest prints in the line after "file:line: Skipped"."""
    lines = iter((case.findtext("system-out") or "").splitlines())
    return next((next(lines, "") for line in lines if line.endswith(": Skipped")), "")


def check_results(path: Path) -> Iterator[Result]:
    for line in path.read_text(errors="replace").splitlines():
        outcome, name, reason = [*line.split("\t", 2), "", ""][:3]
        yield Result(outcome, name, reason)


def main(folder: Path) -> int:
    results = [result for path in sorted(folder.glob("*.xml")) for result in junit_results(path)]
    checks = folder / "checks.tsv"
    if checks.exists():
        results += check_results(checks)
    for outcome in ("skipped", "failed"):
        for result in results:
            if result.outcome == outcome:
                reason = (result.reason.splitlines() or [""])[0]
                print(printable(f"{outcome}: {result.name}" + (f" ({reason})" if reason else ""), 1000))
    totals = Counter(result.outcome for result in results)
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 0 if totals["passed"] and not totals["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
