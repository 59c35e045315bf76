# SPDX-License-Identifier: Apache-2.0
"""The page as text: every element in it comes from this program. test_page_in_browser.py opens it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import builders
import pytest
from roofreport.io.load import load
from roofreport.render import page


class _Cells(HTMLParser):
    """The tags, and the text of the first cell of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: list[str] = []
        self._first = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "td":
            self._first = self.tags[-2] == "tr"
            if self._first:
                self.names.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "td":
            self._first = False

    def handle_data(self, data: str) -> None:
        if self._first:
            self.names[-1] += data


def _page(path: Path, name: str) -> _Cells:
    rows = [builders.row(name, 1.0) | {"FLOP/s": 1e9, "bytes/s": 1e9, "roof": 0.5}]
    cells = _Cells()
    cells.feed(page.render(load(builders.write_json(path, rows))))
    return cells


@pytest.mark.parametrize("name", builders.HOSTILE)
def test_a_name_is_text_however_it_begins(name: str, tmp_path: Path) -> None:
    plain, hostile = _page(tmp_path / "a.json", "plain/n:1"), _page(tmp_path / "b.json", name)
    assert hostile.names == [name]
    assert hostile.tags == plain.tags


def test_the_picture_of_the_share_is_a_picture(tmp_path: Path) -> None:
    tags = _page(tmp_path / "a.json", "plain/n:1").tags
    assert ["td", "svg", "rect", "rect"] in [tags[i : i + 4] for i in range(len(tags))]
