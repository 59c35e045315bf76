# SPDX-License-Identifier: Apache-2.0
"""The pages of a result, the roofline and the passport: one HTML file that works without a network, and that treats
every name in a result as text.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from roofreport import units
from roofreport.compare.machine import Passport
from roofreport.io import case_name
from roofreport.io.reliability import doubt
from roofreport.io.result import Case, Result, State
from roofreport.render import machine, roofline
from roofreport.render.chart import Chart, outline
from roofreport.render.formats import breakable, numeric_columns
from roofreport.render.pictures import HEIGHT, PHONE, WIDTH, drawn, svg_of, themed

_FOLDER = Path(__file__).parent
_MILLISECOND = 1e-3
_BAR_WIDTH = 90
_NONE = "-"
_NOTHING = "'none'"  # of a policy
_HEADERS = ("case", "time", "± sd", "FLOP/s", "bytes/s", "FLOP/byte", "roof", "share of its roof", "samples", "notes")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


class _CaseRow(NamedTuple):
    name: str
    family: str
    reason: str  # why it has no figures; empty: it has
    # Text, and the value to sort by; without a text, a bar.
    cells: list[tuple[str | None, float | None]]


def _row(case: Case) -> _CaseRow:
    name, family = case.name, case_name.family(case.name)
    if case.state is not State.MEASURED:
        return _CaseRow(name, family, case.why_not, [])
    flops, bytes_ = case.counters.get("FLOP/s"), case.counters.get("bytes/s")
    deviation, roof = case.deviation("stddev_ms"), case.counters.get("roof")
    samples = case.counters.get("samples")
    intensity = case.flops / case.bytes if case.flops > 0 and case.bytes > 0 else None
    cells: list[tuple[str | None, float | None]] = [
        (units.time(case.seconds), case.seconds),
        ("" if deviation is None else units.time(deviation * _MILLISECOND), deviation),
        (_NONE if flops is None else units.quantity(flops, "FLOP/s"), flops),
        (_NONE if bytes_ is None else units.quantity(bytes_, "B/s"), bytes_),
        (_NONE if intensity is None else units.digits(intensity), intensity),
        (_NONE if roof is None else f"{100 * roof:.1f} %", roof),
        ("" if roof is None else None, roof),
        ("" if samples is None else f"{samples:.0f}", samples),
        (doubt(case), None),
    ]
    return _CaseRow(name, family, "", cells)


def _picture(chart: Chart) -> Markup:
    """The chart for a wide page and for a narrow one, each of which hides the other's; the page has its legend."""
    return _svg(chart, "wide", (WIDTH, HEIGHT)) + _svg(chart, "narrow", PHONE)


def _svg(chart: Chart, name: str, size: tuple[int, int]) -> Markup:
    """Without inline styles, which the policy forbids; marks point to rows of the table."""
    element = themed(svg_of(*drawn([dataclasses.replace(chart, keys=())], size)))
    element = re.sub(r'<style type="text/css">.*?</style>', "", element)
    element = re.sub(r' style="([^"]*)"', lambda match: _attributes(match[1]), element)
    element = re.sub(r'<g id="mark-(\d+)">', r'<g id="mark-\1" class="mark" data-row="\1" tabindex="0">', element)
    label = f'<svg class="chart {name}" role="img" aria-label="{escape(chart.title)}" '
    return Markup(label + re.sub(r' (?:width|height)="[\d.]+pt"', "", element.removeprefix("<svg "), count=2))


def _attributes(style: str) -> str:
    """Declarations as presentation attributes. The font is that of the page."""
    declared = (one.strip().partition(":") for one in style.split(";") if one.strip())
    return "".join(f' {name}="{value.strip()}"' for name, _, value in declared if not name.startswith("font"))


def _facts(result: Result) -> list[tuple[str, str]]:
    found = []
    for roofs in (roofline.measured_roofs(result), *roofline.datasheet_roofs(result, [*result.merged().values()])):
        for rates, unit in ((roofs.memory, "B/s"), (roofs.compute, "FLOP/s")):
            found += [(f"{roofs.title} roof, {name}", units.quantity(rate, unit)) for name, rate in rates.items()]
    return [
        *found,
        *((key, value) for key, value in result.context.items() if not key.startswith("roof_")),
    ]


def _page(template: str, result: Result, script: str = "", **content: Any) -> str:
    style = "".join((_FOLDER / name).read_text() for name in ("page.css", "cards.css"))
    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["breakable"] = breakable
    return made.get_template(template).render(
        # The page loads nothing, and of scripts and styles only these two apply.
        policy=f"default-src 'none'; script-src {_hash(script) if script else _NOTHING}; style-src {_hash(style)};"
        " base-uri 'none'; form-action 'none'",
        style=Markup(style),
        script=Markup(script),
        outline=outline,
        version=result.context.get("roofbench_version", ""),
        torch=result.context.get("torch_version", "unknown"),
        **content,
    )


def render(result: Result) -> str:
    cases = list(result.merged().values())
    chart = roofline.chart(result)
    measured = sum(case.state is State.MEASURED for case in cases)
    without = sum(case.state is State.MEASURED and not roofline.is_plotted(case) for case in cases)
    note = f"{units.counted(len(cases), 'case')}, {measured} measured"
    if without:
        note += f"; {without} {units.are(without)} in the table only: a mark needs both FLOP and bytes"
    return _page(
        "page.html",
        result,
        (_FOLDER / "page.js").read_text(),
        title=chart.title,
        note=note,
        keys=chart.keys,
        lines=[line for line in chart.lines if line.label],
        picture=_picture(chart),
        headers=_HEADERS,
        rows=[_row(case) for case in cases],
        bar=_BAR_WIDTH,
        facts=_facts(result),
    )


def render_passport(passport: Passport) -> str:
    return _page(
        "machine.html",
        passport.results[0],
        title=machine.title(passport),
        parts=[(part, [(chart.keys, _picture(chart)) for chart in part.charts]) for part in machine.parts(passport)],
        numeric=numeric_columns,
        facts=machine.facts(passport),
    )
