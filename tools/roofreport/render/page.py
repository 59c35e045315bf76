# SPDX-License-Identifier: Apache-2.0
"""The roofline page: one HTML file that works without a network, and that treats every name in a result as text."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from roofreport import units
from roofreport.io import case_name
from roofreport.io.result import Case, Result, State
from roofreport.render import roofline
from roofreport.render.chart import Chart, Key
from roofreport.render.pictures import drawn, svg_of, themed
from roofreport.text import shortened

_FOLDER = Path(__file__).parent
_MILLISECOND = 1e-3
_BAR_WIDTH = 90
_NONE = "-"
_HEADERS = ("case", "time", "± sd", "FLOP/s", "bytes/s", "FLOP/byte", "roof", "share of its roof", "samples")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _cell(content: str, value: float | str | None = None) -> str:
    attribute = "" if value is None else f' data-value="{escape(str(value))}"'
    return f"<td{attribute}>{escape(content)}</td>"


def _bar(share: float) -> str:
    """A cell with a bar."""
    filled = max(0.0, min(1.0, share)) * _BAR_WIDTH
    return (
        f'<td data-value="{share}"><svg width="{_BAR_WIDTH}" height="10" role="img" aria-label="{100 * share:.0f} %">'
        f'<rect class="track" width="{_BAR_WIDTH}" height="10" rx="3"/>'
        f'<rect class="bar" width="{filled:.1f}" height="10" rx="3"/></svg></td>'
    )


def _row(index: int, case: Case) -> str:
    name = case.name
    head = f'<tr data-row="{index}" data-family="{escape(shortened(case_name.family(case.name), 300))}">' + _cell(
        name, name
    )
    if case.state is not State.MEASURED:
        return f'{head}<td class="reason" colspan="{len(_HEADERS) - 1}">{escape(case.why_not)}</td></tr>'
    flops, bytes_ = case.counters.get("FLOP/s"), case.counters.get("bytes/s")
    deviation, roof = case.counters.get("stddev_ms"), case.counters.get("roof")
    samples = case.counters.get("samples")
    cells = [
        _cell(units.time(case.seconds), case.seconds),
        _cell("") if deviation is None else _cell(units.time(deviation * _MILLISECOND), deviation),
        _cell(_NONE) if flops is None else _cell(units.quantity(flops, "FLOP/s"), flops),
        _cell(_NONE) if bytes_ is None else _cell(units.quantity(bytes_, "B/s"), bytes_),
        _cell(units.digits(case.flops / case.bytes), case.flops / case.bytes)
        if case.flops > 0 and case.bytes > 0
        else _cell(_NONE),
        _cell(_NONE) if roof is None else _cell(f"{100 * roof:.1f} %", roof),
        _cell("") if roof is None else _bar(roof),
        _cell("") if samples is None else _cell(f"{samples:.0f}", samples),
    ]
    return head + "".join(cells) + "</tr>"


def _picture(chart: Chart) -> str:
    """The chart without inline styles, which the policy forbids; its marks point to rows of the table."""
    element = themed(svg_of(*drawn([chart])))
    element = re.sub(r'<style type="text/css">.*?</style>', "", element)
    element = re.sub(r' style="([^"]*)"', lambda match: _attributes(match[1]), element)
    element = re.sub(r'<g id="mark-(\d+)">', r'<g id="mark-\1" class="mark" data-row="\1" tabindex="0">', element)
    label = f'<svg class="chart" role="img" aria-label="{escape(chart.title)}" '
    return label + re.sub(r' (?:width|height)="[\d.]+pt"', "", element.removeprefix("<svg "), count=2)


def _attributes(style: str) -> str:
    """Declarations as presentation attributes. The font is that of the page."""
    declared = (one.strip().partition(":") for one in style.split(";") if one.strip())
    return "".join(f' {name}="{value.strip()}"' for name, _, value in declared if not name.startswith("font"))


_SIGNS = {"circle": "●", "square": "■", "diamond": "◆", "triangle": "▲"}


def _legend(keys: Sequence[Key]) -> str:
    parts = []
    for key in keys:
        faded = ' opacity="0.55"' if key.doubtful else ""
        sign = f'<svg viewBox="0 0 16 16"><text y="13" fill="{key.color}"{faded}>{_SIGNS[key.shape]}</text></svg>'
        if key.family is None:
            parts.append(f"<span>{sign}{escape(key.label)}</span>")
        else:
            family = escape(shortened(key.family, 300))
            parts.append(
                f'<button type="button" aria-pressed="true" data-family="{family}">{sign}{escape(key.label)}</button>'
            )
    return f'<div class="legend">{"".join(parts)}</div>'


def _facts(result: Result) -> str:
    roofs = roofline.measured_roofs(result)
    entries = [(f"measured roof, {name}", units.quantity(rate, "B/s")) for name, rate in roofs.memory.items()]
    entries += [(f"measured roof, {name}", units.quantity(rate, "FLOP/s")) for name, rate in roofs.compute.items()]
    entries += [
        (shortened(key, 60), shortened(value, 300))
        for key, value in result.context.items()
        if not key.startswith("roof_")
    ]
    return "<dl>" + "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in entries) + "</dl>"


def render(result: Result) -> str:
    cases = list(result.merged().values())
    chart = roofline.chart(result)
    style = (_FOLDER / "page.css").read_text()
    script = (_FOLDER / "page.js").read_text()
    # The page loads nothing, and of scripts and styles only these two apply.
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    measured = sum(case.state is State.MEASURED for case in cases)
    without = sum(case.state is State.MEASURED and not roofline.is_plotted(case) for case in cases)
    note = f"{len(cases)} cases, {measured} measured"
    if without:
        note += f"; {without} without arithmetic or traffic are in the table only"
    headers = "".join(f'<th scope="col"><button type="button">{escape(header)}</button></th>' for header in _HEADERS)
    version = shortened(result.context["roofbench_version"], 40)
    torch = shortened(result.context.get("torch_version", "unknown"), 40)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(chart.title)}</title>
<style>{style}</style>
</head>
<body>
<h1>{escape(chart.title)}</h1>
<p>roofbench {escape(version)}, LibTorch {escape(torch)}. {escape(note)}.</p>
<p>Solid lines: roofs measured at the start of the run. Dashed: datasheets. The column roof has the share of the roof
that was measured alongside each case.</p>
<p>Click a family to hide or show it, a mark to find its row, a heading to sort by it; point at a mark for
its case.</p>
{_legend(chart.keys)}
{_picture(chart)}
<h2>Cases</h2>
<div class="scroll"><table id="cases"><thead><tr>{headers}</tr></thead>
<tbody>
{chr(10).join(_row(index, case) for index, case in enumerate(cases))}
</tbody></table></div>
<h2>The machine</h2>
{_facts(result)}
<div id="tip" role="status" hidden></div>
<script>{script}</script>
</body>
</html>
"""
