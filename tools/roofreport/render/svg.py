# SPDX-License-Identifier: Apache-2.0
"""Drawings as SVG: presentation attributes and classes alone, so that a strict policy can forbid the rest."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from roofreport.render.chart import Chart
from roofreport.render.drawing import STYLES, Item, Panel, Path, Style, Symbol, Text, panel, sheet

_THEMES = {
    "light": "--ink: #1c2430; --faint: #dfe3e8; --back: #ffffff;",
    "dark": "--ink: #e6e9ee; --faint: #2c333d; --back: #14181e;",
}

# A reader of XML ends at the first of them.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape(text: str) -> str:
    """Text of an element or a quoted attribute."""
    return html.escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def _declarations(name: str, style: Style) -> str:
    text = []
    if style.fill:
        text.append(f"fill: var(--{style.fill});")
    elif name in ("frame", "line"):
        text.append("fill: none;")
    if style.stroke:
        text.append(f"stroke: var(--{style.stroke});")
    if style.width:
        text.append(f"stroke-width: {style.width:g};")
    if name == "halo":
        text.append("paint-order: stroke; stroke-linejoin: round;")
    if style.dashes:
        text.append(f"stroke-dasharray: {' '.join(f'{dash:g}' for dash in style.dashes)};")
    if style.opacity < 1:
        text.append(f"opacity: {style.opacity:g};")
    if style.size:
        text.append(f"font-size: {style.size:g}px;")
    if style.bold:
        text.append("font-weight: 600;")
    return " ".join(text)


def style_sheet() -> str:
    """Of the classes that drawings use; the colours --ink, --faint and --back are the document's own."""
    return "".join(f".{name} {{ {_declarations(name, style)} }}\n" for name, style in STYLES.items())


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def symbol(one: Symbol) -> str:
    row = f' data-row="{one.index}" tabindex="0"' if one.index >= 0 else ""
    kind = "mark hollow" if one.doubtful else "mark"
    attributes = f'class="{kind}" fill="{one.color}"{row}'
    inner = f"<title>{escape(one.title)}</title>" if one.title else ""
    corners = one.corners()
    if not corners:
        place = f'cx="{_number(one.x)}" cy="{_number(one.y)}" r="{_number(one.radius)}"'
        return f"<circle {place} {attributes}>{inner}</circle>"
    return f'<polygon points="{_points(corners)}" {attributes}>{inner}</polygon>'


def _path(path: Path) -> str:
    stroke = f' stroke="{path.color}"' if path.color else ""
    kind = "polygon" if path.closed else "polyline"
    return f'<{kind} class="{" ".join(path.classes)}"{stroke} points="{_points(path.points)}"/>'


def _text(text: Text) -> str:
    x, y = _number(text.x), _number(text.y)
    place = f'x="{x}" y="{y}"'
    if text.angle:
        shift = f" translate(0 {_number(text.below)})" if text.below else ""
        place = f'transform="translate({x} {y}) rotate({_number(text.angle)}){shift}"'
    anchor = f' text-anchor="{text.anchor}"' if text.anchor != "start" else ""
    return f'<text class="{" ".join(text.classes)}" {place}{anchor}>{escape(text.text)}</text>'


def _item(item: Item) -> str:
    if isinstance(item, Path):
        return _path(item)
    return symbol(item) if isinstance(item, Symbol) else _text(item)


def _inner(drawn: Panel) -> str:
    return "\n".join(map(_item, drawn.items))


def element(chart: Chart) -> str:
    """For a page: without title, legend and styles, which the page has."""
    drawn = panel(chart, bare=True)
    box = f"0 0 {_number(drawn.width)} {_number(drawn.height)}"
    return f'<svg class="chart" viewBox="{box}" role="img" aria-label="{escape(chart.title)}">\n{_inner(drawn)}\n</svg>'


def document(charts: Sequence[Chart], columns: int = 1) -> str:
    """A file of its own, following the reader's light or dark theme."""
    whole = sheet(charts, columns)
    width, height = _number(whole.width), _number(whole.height)
    parts = [
        f'<g transform="translate({_number(x)} {_number(y)})">\n{_inner(drawn)}\n</g>' for x, y, drawn in whole.panels
    ]
    font = f".chart {{ font: 12px system-ui, sans-serif; {_THEMES['light']} }}"
    dark = f"@media (prefers-color-scheme: dark) {{ .chart {{ {_THEMES['dark']} }} }}"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}">\n'
        f"<style>\n{font}\n.back {{ fill: var(--back); }}\n{style_sheet()}{dark}\n</style>\n"
        '<rect class="back" width="100%" height="100%"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
