# SPDX-License-Identifier: Apache-2.0
"""A result as a line and as a table of a notebook."""

from __future__ import annotations

from html.parser import HTMLParser

from roofbench import _render
from roofbench._result import Result

_COLUMNS = {"time": "1.23 ms", "FLOP/s": "27.3 GFLOP/s", "bytes/s": "54.6 GB/s", "roof": "92.1 %", "+-ci": "0.80 %"}


def test_rates_and_shares() -> None:
    assert _render.rate(27.3e9, "FLOP/s") == "27.3 GFLOP/s"
    assert _render.rate(None, "B/s") == "-"
    assert _render.share(0.0123) == "1.23 %"
    assert _render.share(0.921) == "92.1 %"
    assert _render.signed(-0.051) == "-5.1 %"


def test_line_has_the_columns_in_order() -> None:
    line = _render.line("gemv/cache:warm", _COLUMNS, ["noisy (ci)"], "")
    positions = [line.index(text) for text in ["gemv", *_COLUMNS.values(), "noisy (ci)"]]
    assert positions == sorted(positions)
    assert "\n" not in line


def test_an_unknown_interval_is_left_out() -> None:
    line = _render.line("gemv", _render.figures(0.001, {}, ""), ["few samples"], "")
    assert line.endswith("-  few samples") and "+-" not in line


def test_roof_is_named() -> None:
    columns = _render.figures(0.001, {"roof": 0.5, "ci": 0.01}, "memory")
    assert columns["roof"] == "50.0 % of memory"
    assert _render.figures(0.001, {}, "")["roof"] == "-"


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_table_is_balanced_and_escaped() -> None:
    text = _render.table("<script>x</script>", _COLUMNS, {"noisy": "<b>why</b>"}, "a & <i>b</i>")
    parser = _Texts()
    parser.feed(text)
    assert parser.open == []
    assert parser.tags == {"table", "thead", "tbody", "tr", "th", "td", "span"}
    assert "&lt;script&gt;" in text and "&lt;b&gt;why" in text and "a &amp; &lt;i&gt;" in text


def test_table_takes_the_colors_of_the_page() -> None:
    """It sets neither a background nor the color of figures, so that it is readable on light and dark pages."""
    text = _render.table("case", _COLUMNS, {}, "")
    assert "background" not in text and "color:#" not in text


def test_failed_result() -> None:
    result = Result("gemv", "wrong result: 3 elements")
    assert repr(result) == "gemv  failed: wrong result: 3 elements"
    assert "wrong result" in result._repr_html_()
    assert result.median is None and result.interval is None and result.samples == [] and result.verdicts == {}
