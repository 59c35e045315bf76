# SPDX-License-Identifier: Apache-2.0
"""Runs and series of a history as tables, and the findings of the gate for a terminal, an issue, JUnit readers and
other programs.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from xml.etree import ElementTree

from roofreport import units
from roofreport.gate.verdicts import ALARMS, ORDER, Finding
from roofreport.history.records import Reading, Run, Series
from roofreport.io.contract import Metric
from roofreport.io.reliability import IN_DOUBT
from roofreport.io.result import Case, State
from roofreport.render import formats
from roofreport.render.formats import LONGEST_NAME, Cell, Column, Table, figure, note, spanning, table, words
from roofreport.render.judgment_table import cell, finite
from roofreport.text import escaped, shortened

_SHORT = 60
_REVISION = 12


def _moment(run: Run) -> Cell:
    return Cell(run.started.strftime("%Y-%m-%d %H:%M"), numeric=False)


_RUN: Sequence[Column[Run]] = (
    ("run", lambda run: figure(run.id, str)),
    ("started (UTC)", _moment),
    ("revision", lambda run: words(run.revision[:_REVISION])),
)


def run_table(found: Sequence[Run]) -> Table:
    columns: Sequence[Column[Run]] = (
        *_RUN,
        ("machine", lambda run: words(run.machine.label, _SHORT)),
        ("toolchain", lambda run: words(run.toolchain.label, _SHORT)),
        ("file", lambda run: words(run.name, _SHORT)),
    )
    return table(found, columns)


def series_table(found: Sequence[Series]) -> Table:
    columns: Sequence[Column[Series]] = (
        ("series", lambda one: words(one.key, _SHORT)),
        ("case", lambda one: words(one.case)),
        ("machine", lambda one: words(one.machine.label, _SHORT)),
        ("toolchain", lambda one: words(one.toolchain.label, _SHORT)),
    )
    return table(found, columns)


def _why_missing(one: Series, reading: Reading) -> str:
    if reading.state is not State.MEASURED:
        return Case(one.case, 0, reading.state, reading.reason).why_not
    is_disturbed = (reading.counters.get("disturbed") or 0) > 0
    return f"no {one.metric}{': disturbed' if is_disturbed else ''}"


def readings_table(one: Series, found: Sequence[Reading], metric: Metric) -> Table:
    rows = []
    last: float | None = None
    for reading in found:
        if reading.value is None:
            value, change = spanning(_why_missing(one, reading)), Cell()
        else:
            value = Cell(units.spelled(reading.value, metric.unit), reading.value)
            change = Cell()
            if not metric.noisy or not reading.doubt:
                change = figure(reading.value / last - 1 if last else None, units.percent)
                last = reading.value
        rows.append((*(cell(reading.run) for _, cell in _RUN), value, change, note(shortened(reading.doubt, _SHORT))))
    return Table((*(header for header, _ in _RUN), one.metric, "change", ""), tuple(rows))


SCHEMA = "roofbench-gate-1"
_MOST_NAMED = 5  # of each of _MANY
_UNJUDGED = {"ambiguous": IN_DOUBT, "new": "new"}  # findings that are no verdict


@dataclass(frozen=True)
class Report:
    found: Sequence[Finding]
    dismissed: Sequence[Finding]  # findings that a second run did not confirm
    cases: Sequence[str]  # names of the judged cases
    runs: Sequence[Run]  # of the nightly run
    metric: Metric
    unjudged: Mapping[str, str]  # why cases that no finding explains were not judged
    remarks: Sequence[str] = ()

    @property
    def _unjudged(self) -> Counter[str]:
        """How many cases were not judged, by the reason."""
        said = {finding.series.case: finding.kind for finding in self.found}
        reasons = (_UNJUDGED.get(said[case], "") if case in said else self.unjudged.get(case) for case in self.cases)
        return Counter(filter(None, reasons))

    @property
    def is_unjudged(self) -> bool:
        """No case was judged."""
        return bool(self.cases) and self._unjudged.total() == len(self.cases)

    @property
    def notes(self) -> list[str]:
        reasons = self._unjudged
        if not self.is_unjudged or reasons.keys() <= {"new", "too young"}:  # a remark says when they will be
            return [*self.remarks]
        doubtful = reasons[IN_DOUBT]
        why = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
        why = "all rows are in doubt" if doubtful == len(self.cases) else why
        way = "; measure in a quieter hour, or with --wait_quiet=600" if doubtful else ""
        return [*self.remarks, f"none of {units.counted(len(self.cases), 'case')} was judged: {why}{way}"]

    @property
    def alarms(self) -> list[Finding]:
        return [finding for finding in self.found if finding.kind in ALARMS]


# The kinds that may be every case of a night.
_MANY = {"ambiguous": "not judged: their readings support no verdict", "new": "new"}


def gate_table(report: Report) -> Table:
    def of_metric(value: float) -> Cell:
        return cell(value, lambda value: units.spelled(value, report.metric.unit))

    rows = [(finding.kind.upper(), finding) for finding in report.found if finding.kind not in _MANY]
    left = []
    for kind, what in _MANY.items():
        some = [finding for finding in report.found if finding.kind == kind]
        rows += [(kind.upper(), finding) for finding in some[:_MOST_NAMED]]
        if len(some) > _MOST_NAMED:
            more = len(some) - _MOST_NAMED
            left.append(f"{more} more series {units.are(more)} {what}")
    rows += [("not confirmed", finding) for finding in report.dismissed]
    columns: Sequence[Column[tuple[str, Finding]]] = (
        ("finding", lambda row: words(row[0])),
        ("case", lambda row: words(row[1].series.case)),
        ("before", lambda row: of_metric(row[1].before)),
        ("now", lambda row: of_metric(row[1].after)),
        ("change", lambda row: cell(row[1].effect, units.percent)),
        ("since", lambda row: words(_since(row[1].since))),
        ("what", lambda row: words(row[1].text)),
    )
    return table(rows, columns, left)


def _since(run: Run | None) -> str:
    return f"{run.started:%Y-%m-%d} {run.revision[:_REVISION]}".strip() if run else ""


def summary(report: Report) -> str:
    """ "gate: 40 cases: 1 SLOWER, 2 DRIFT; 3 not confirmed"."""
    counts = Counter(finding.kind for finding in report.found)
    said = ", ".join(f"{counts[kind]} {kind.upper()}" for kind in ORDER if counts[kind]) or "nothing to say"
    again = f"; {len(report.dismissed)} not confirmed by a second run" if report.dismissed else ""
    return f"{units.counted(len(report.cases), 'case')}, {report.metric.name}: {said}{again}"


def _night(report: Report) -> str:
    runs = list(report.runs)
    revision = f", {shortened(runs[-1].revision, 40)}" if runs[-1].revision else ""
    machine = shortened(f"{runs[-1].machine.label}; {runs[-1].toolchain.label}", LONGEST_NAME)
    processes = units.counted(len(runs), "process", "es")
    return f"{runs[0].started:%Y-%m-%d %H:%M} UTC{revision}, {processes} on {machine}"


def gate_text(report: Report) -> str:
    found = gate_table(report)
    body = formats.terminal(found) + "\n" if found.rows else ""
    lines = [_night(report), *(f"note: {shortened(note, 500)}" for note in report.notes), summary(report)]
    return body + "\n".join(lines) + "\n"


def gate_markdown(reports: Sequence[Report]) -> str:
    worse = any(report.alarms for report in reports)
    unjudged = all(report.is_unjudged for report in reports)
    what = "something got worse" if worse else "nothing was judged" if unjudged else "nothing got worse"
    text = f"### Gate: {what}\n"
    for report in reports:
        found = gate_table(report)
        lines = [summary(report), _night(report), *(f"note: {shortened(note, 500)}" for note in report.notes)]
        text += "\n" + "".join(f"{formats.markdown_text(line)}  \n" for line in lines)
        text += "\n" + formats.markdown(found) if found.rows else ""
        text += "".join(map(_profile_markdown, report.found))
    return text


def _profile_markdown(finding: Finding) -> str:
    if not finding.profile:
        return ""
    # In HTML Markdown's escapes mean nothing, and an indented block has no fence that a name could end.
    name = html.escape(finding.series.case).replace("@", "@<!-- -->")
    summary = f"<details><summary>{name}: the old program and the new one</summary>"
    return f"\n{summary}\n\n{indent(finding.profile, '    ')}\n\n</details>\n"


def _xml_text(text: str) -> str:
    """XML excludes most control characters, even escaped, and two noncharacters."""
    return escaped(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def _test(suite: ElementTree.Element, name: str, said: Sequence[Finding]) -> bool:
    """Adds a case, and returns whether it is a failure."""
    names = {"classname": _xml_text(name.partition("/")[0]), "name": _xml_text(name), "time": "0"}
    test = ElementTree.SubElement(suite, "testcase", names)
    alarm = next((finding for finding in said if finding.kind in ALARMS), None)
    if alarm is not None:
        text = _xml_text(shortened(alarm.text, LONGEST_NAME))
        ElementTree.SubElement(test, "failure", {"type": alarm.kind, "message": text}).text = text
        return True
    if said:
        ElementTree.SubElement(test, "system-out").text = _xml_text(f"{said[0].kind}: {said[0].text}")
    return False


def gate_junit(reports: Sequence[Report]) -> str:
    """One test per case: failed where it is an alarm."""
    root = ElementTree.Element("testsuites", {"name": "roofbench gate"})
    for report in reports:
        said: dict[str, list[Finding]] = {name: [] for name in report.cases}
        for finding in report.found:
            said.setdefault(finding.series.case, []).append(finding)
        machine = report.runs[0].machine.label
        suite = ElementTree.SubElement(root, "testsuite", {"name": _xml_text(f"{report.metric.name}, {machine}")})
        failures = sum(_test(suite, name, findings) for name, findings in said.items())
        suite.attrib |= {"tests": str(len(said)), "errors": "0", "time": "0"}
        suite.attrib |= {"failures": str(failures), "skipped": "0"}
        suite.set("timestamp", f"{report.runs[0].started:%Y-%m-%dT%H:%M:%S}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _entry(finding: Finding) -> dict[str, object]:
    since = finding.since
    return {
        "kind": finding.kind,
        "case": finding.series.case,
        "series": finding.series.key,
        "before": finite(finding.before),
        "after": finite(finding.after),
        "effect": finite(finding.effect),
        "since": since and since.started.isoformat(),
        "since_revision": since and since.revision,
        "second_run": finding.second_run,
        "profile": finding.profile,
        "text": finding.text,
    }


def _as_entry(report: Report) -> dict[str, object]:
    run = report.runs[-1]
    return {
        "night": report.runs[0].started.isoformat(),
        "revision": run.revision,
        "machine": run.machine.label,
        "toolchain": run.toolchain.label,
        "alarm": bool(report.alarms),
        "metric": report.metric.name,
        "unit": report.metric.unit,
        "cases": len(report.cases),
        "found": [_entry(finding) for finding in report.found],
        "not_confirmed": [_entry(finding) for finding in report.dismissed],
        "notes": list(report.notes),
    }


def gate_json(reports: Sequence[Report]) -> str:
    alarm = any(report.alarms for report in reports)
    document = {"schema": SCHEMA, "alarm": alarm, "nights": [_as_entry(report) for report in reports]}
    return json.dumps(document, indent=1) + "\n"
