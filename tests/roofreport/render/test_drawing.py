# SPDX-License-Identifier: Apache-2.0
"""One drawing behind SVG, page and PNG."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from roofreport.render import png, svg
from roofreport.render.chart import Chart, Key, Line, Mark, Range
from roofreport.render.drawing import STYLES, Item, Symbol, Text, panel, sheet

_CHART = Chart(
    title="A & B",
    x_label="x",
    y_label="y",
    x=Range(1.0, 1000.0),
    y=Range(1.0, 1000.0),
    lines=(Line(((1.0, 1.0), (1000.0, 1000.0)), "slanted", slanted=True), Line(((1.0, 10.0), (1000.0, 10.0)), "flat")),
    marks=(Mark(10.0, 10.0, "a mark", "#0072b2", "square", 3), Mark(100.0, 1.0, "another", "#d55e00")),
    keys=(Key("a key", "#0072b2", "diamond"),),
)


def _of(kind: type[Item], items: tuple[Item, ...]) -> list[Item]:
    return [item for item in items if isinstance(item, kind)]


def test_marks_lie_on_their_values() -> None:
    drawn = panel(_CHART)
    first, second, key = _of(Symbol, drawn.items)
    left, right = 78, drawn.width - 24
    assert isinstance(first, Symbol) and isinstance(second, Symbol) and isinstance(key, Symbol)
    assert first.x == pytest.approx(left + (right - left) / 3)
    assert second.x == pytest.approx(left + (right - left) * 2 / 3)
    assert second.y > first.y, "y grows upwards"
    assert (first.index, first.title, second.index) == (3, "a mark", -1)


def test_a_bare_panel_has_neither_title_nor_legend() -> None:
    whole, bare = panel(_CHART), panel(_CHART, bare=True)
    assert len(_of(Symbol, bare.items)) == len(_of(Symbol, whole.items)) - 1
    assert "A & B" not in [item.text for item in bare.items if isinstance(item, Text)]
    assert bare.height < whole.height


def test_a_sheet_has_its_panels_beside_each_other() -> None:
    placed = sheet([_CHART] * 3, columns=2)
    (x0, y0, one), (x1, y1, _), (x2, y2, _) = placed.panels
    assert (x0, y0, y1, x2) == (0, 0, 0, 0)
    assert x1 == one.width
    assert y2 > one.height
    assert placed.width == 2 * one.width


def test_svg_has_every_item_and_a_style_for_each_class() -> None:
    text = svg.document([_CHART])
    root = ET.fromstring(text)
    (placed,) = [drawn for _, _, drawn in sheet([_CHART]).panels]
    assert [one.text for one in root.iter() if one.tag.endswith("}text")] == [
        item.text for item in placed.items if isinstance(item, Text)
    ]
    classes = {name for one in root.iter() for name in (one.get("class") or "").split()}
    assert classes - {"chart", "back"} <= set(STYLES)
    assert all(f".{name} {{" in svg.style_sheet() for name in STYLES)
    assert re.search(r"@media \(prefers-color-scheme: dark\)", text)


def test_png_is_the_same_sheet_in_twice_the_pixels(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    png.write(path, [_CHART])
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    whole = sheet([_CHART])
    assert (width, height) == (2 * whole.width, 2 * whole.height)


def test_an_axis_within_a_decade_has_ticks() -> None:
    assert Range(2.0, 9.0).decades() == []
    assert all(2.0 <= tick <= 9.0 for tick in Range(2.0, 9.0).ticks())
    assert Range(2.0, 9.0).ticks()
