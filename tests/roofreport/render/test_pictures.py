# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from roofreport.render import pictures
from roofreport.render.chart import LEAST, MOST, Chart, Key, Line, Mark, Range, clipped, spanning
from roofreport.render.labels import LETTER, Labels

_CHART = Chart(
    title="A & <b>",
    x_label="x",
    y_label="y",
    x=Range(1.0, 1000.0),
    y=Range(1.0, 1000.0),
    lines=(Line(((1.0, 1.0), (1000.0, 1000.0)), "slanted"), Line(((1.0, 10.0), (1000.0, 10.0)), "flat")),
    marks=(Mark(10.0, 10.0, "a <mark>", "#0072b2", "square", 3), Mark(100.0, 1.0, "another", "#d55e00")),
    keys=(Key("a key", "#0072b2", "diamond"),),
)


def test_labels_lie_clear_of_each_other_and_of_lines_and_marks() -> None:
    rows = [[0, 0], [400, 300]], [[0, 0], [250, 250]], [[150, 150], [400, 150]]
    box, slope, flat = (np.array(row, float) for row in rows)
    mark = np.array([380.0, 160.0])  # where the label would be
    placed = Labels(box, [slope, flat], mark)
    spots = [placed.place("a" * 20, line, below) for line, below in ((flat, False), (flat, False), (slope, True))]
    letters = [
        np.array([spot.x, spot.y]) + LETTER * i * np.array([math.cos(spot.angle), math.sin(spot.angle)])
        for spot in spots
        if spot is not None
        for i in [np.arange(21)[:, None]]
    ]
    assert len(letters) == 3 and placed.place("a" * 80, slope, False) is None, "it would leave the box"
    for place, own in enumerate(letters):
        assert ((own > 0) & (own < box[1])).all()
        assert np.abs(own - mark).max(axis=1).min() > 6
        assert np.abs(own[:, 0] - own[:, 1]).min() > 6 or own[:, 0].min() > 250
        assert all(math.dist(one, other) > 12 for rest in letters[:place] for one in own for other in rest)


def test_marks_lie_on_their_values() -> None:
    figure, titles = pictures.drawn([_CHART])
    assert titles == {"mark-3": "a <mark>", "mark-0-1": "another"}
    marks = {line.get_gid(): line for line in figure.axes[0].lines if line.get_gid()}
    assert [*marks["mark-3"].get_data()] == [[10.0], [10.0]]
    assert [*marks["mark-0-1"].get_data()] == [[100.0], [1.0]]


@pytest.mark.parametrize(("count", "panels"), [(1, 1), (3, 4)])
def test_svg_has_every_text_and_loads_nothing(count: int, panels: int) -> None:
    svg = pictures.svg_of_charts([_CHART] * count)
    root = ET.fromstring(svg)
    texts = [one.text for one in root.iter() if one.tag.endswith("}text")]
    for text in ("A & <b>", "slanted", "flat", "a key", "x", "y"):
        assert texts.count(text) == count
    assert "a <mark>" in [one.text for one in root.iter() if one.tag.endswith("}title")]
    assert not [one for one in root.iter() if one.tag.endswith(("script", "image"))]
    links = [value for one in root.iter() for name, value in one.attrib.items() if name.endswith("href")]
    assert all(link.startswith("#") for link in links)
    assert svg.count('paint-order="stroke"') == 2 * count, "labels have a rim"
    assert "prefers-color-scheme: dark" in svg
    assert pictures.INK not in svg.partition("</style>")[2]
    assert len(pictures.drawn([_CHART] * count)[0].axes) == panels


@pytest.mark.parametrize("low", (5e-324, 1e-300, 1.0, 1e99, 1e308))
@pytest.mark.parametrize("factor", (1.0, 1.0000001, 1e10, 1e300))
@pytest.mark.parametrize("margin", (1.3, 3.0))
def test_a_range_holds_any_value(low: float, factor: float, margin: float) -> None:
    found = spanning([low, low * factor, -1.0, math.inf, math.nan], margin)
    assert LEAST <= found.low < found.high <= MOST
    assert 0 <= found.place(low) <= 1
    for value in (0.0, -1.0, math.inf, 5e-324):
        assert math.isfinite(found.place(value))


def test_clipping() -> None:
    x = y = Range(1.0, 100.0)

    def clip(*points: tuple[float, float]) -> list[float]:
        return [value for point in clipped(Line(points), x, y) for value in point]

    assert clip((0.1, 0.1), (1000.0, 1000.0)) == pytest.approx([1, 1, 100, 100])
    assert clip((0.1, 500.0), (1000.0, 500.0)) == []
    assert clip((2.0, 5.0), (50.0, 5.0)) == pytest.approx([2, 5, 50, 5])
    x = y = Range(LEAST, MOST)
    assert clip((5e-324, 1.0), (1e308, 1.0)) == pytest.approx([LEAST, 1, MOST, 1])


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1.0, 1000.0, [1, 10, 100, 1000]),
        (2.0, 9.0, [2, 5]),
        (2.1, 3.5, [2.2, 2.4, 2.6, 2.8, 3.0, 3.2, 3.4]),
        (0.67, 1.71, [0.8, 1.0, 1.2, 1.4, 1.6]),
        (1e-4, 1e12, [10.0**exponent for exponent in range(-4, 13, 2)]),
    ],
)
def test_ticks_are_decades_or_round_numbers_between_them(low: float, high: float, ticks: list[float]) -> None:
    chart = replace(_CHART, x=Range(low, high), x_tick="{:g} s".format)
    axis = pictures.drawn([chart])[0].axes[0].xaxis
    shown = [place for place in axis.get_majorticklocs() if low * 0.999 <= place <= high * 1.001]
    assert shown == pytest.approx(ticks)
    assert {f"{tick:g} s" for tick in ticks} <= {label.get_text() for label in axis.get_ticklabels()}
