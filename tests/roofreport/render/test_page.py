# SPDX-License-Identifier: Apache-2.0
"""The pages of a result: as text, where every element comes from this program, and in headless Chromium."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import builders
import machines
import pytest
import sites
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from roofreport.cli import main
from roofreport.io.load import load
from roofreport.render import page


class _Reader(HTMLParser):
    """The parts of a page that a browser would see: tags, attributes, and the text of the cells of each row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.rows: list[list[str]] = []
        self._in_cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append(dict(attrs))
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
        self._in_cell = tag == "td" or (self._in_cell and tag not in ("tr", "dl"))

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data


def _rows(*names: str) -> list[dict[str, Any]]:
    return [builders.row(name, 1.0) | {"FLOP/s": 1e9, "bytes/s": 1e9, "roof": 0.5} for name in names]


def _read(path: Path, name: str) -> _Reader:
    rows = [*_rows(name), builders.error_row("huge/n:1", f"skipped: {name}")]
    return _Reader(page.render(load(builders.write_json(path, rows))))


@pytest.mark.parametrize("name", builders.HOSTILE)
def test_a_name_is_text_however_it_begins(name: str, tmp_path: Path) -> None:
    plain, hostile = _read(tmp_path / "a.json", "plain/n:1"), _read(tmp_path / "b.json", name)
    assert [row[0] for row in hostile.rows[1:]] == [name, "huge/n:1"]
    assert hostile.rows[2][1] == f"skipped: {name}"
    others = [[tag for tag in one.tags if tag != "wbr"] for one in (hostile, plain)]
    assert others[0] == others[1]
    assert ["td", "svg", "rect", "rect"] in [plain.tags[i : i + 4] for i in range(len(plain.tags))], "the bar"
    for attributes in hostile.attributes:
        assert not any(name.startswith("on") or name in ("src", "href", "style", "action") for name in attributes)


def test_the_policy_allows_only_our_script_and_style(tmp_path: Path) -> None:
    html = page.render(load(builders.write_json(tmp_path / "a.json", _rows("plain/n:1"))))
    (policy,) = [
        one["content"] or "" for one in _Reader(html).attributes if one.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy and "http" not in policy
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_a_run_without_arithmetic_or_roofs_has_a_page(tmp_path: Path) -> None:
    path = builders.write_json(tmp_path / "a.json", [builders.row(builders.COPY, 9.0)])
    assert builders.COPY in page.render(load(path))
    builders.write_json(path, [builders.error_row("a/n:1", "skipped: no")])
    assert "skipped: no" in page.render(load(path))
    header = builders.header()
    header["context"] = {key: header["context"][key] for key in ("roofbench_version", "device_kind", "device")}
    path.write_text(builders.journal_text(header))
    assert "0 cases" in page.render(load(path))


_NAMES = [*builders.TIMES, *builders.HOSTILE, "huge/n:1"]


@pytest.fixture
def visit(chromium: Browser, tmp_path: Path) -> Iterator[sites.Visit]:
    """After each test there must be no request except for the file, and no complaint."""
    rows = [*builders.scaled(1.0), *_rows(*builders.HOSTILE)]
    rows += [builders.error_row("huge/n:1", "skipped: out of memory: <b>80 GB</b>")]
    html = tmp_path / "page.html"
    assert main(["roofline", str(builders.write_json(tmp_path / "run.json", rows)), f"--html={html}"]) == 0
    with sites.visit(chromium) as opened:
        opened.page.goto(html.as_uri())
        yield opened
        assert opened.requests == [html.as_uri()]
        assert not opened.complaints


@pytest.mark.slow
def test_it_shows_every_case_as_text(visit: sites.Visit) -> None:
    assert visit.page.locator("#cases tbody tr td:first-child").all_text_contents() == _NAMES
    assert visit.page.locator("script").count() == visit.page.locator("h1").count() == 1
    assert visit.page.locator("img").count() == 0
    assert visit.page.locator(".wide .mark[data-row]").count() == 2 + len(builders.HOSTILE)
    expect(visit.page.locator("#cases")).to_be_visible()
    # The policy itself: even an injected script does not run.
    script = "Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'})"
    visit.page.evaluate(f"document.body.append({script})")
    assert visit.page.evaluate("window.ran === undefined")
    (refused,) = visit.complaints
    assert "Content Security Policy" in refused
    visit.complaints.clear()


@pytest.mark.slow
def test_it_sorts(visit: sites.Visit) -> None:
    headers = visit.page.locator("#cases th button")
    for descending in (True, False):
        headers.nth(1).click()
        rows = visit.page.locator("#cases tbody tr")
        values = rows.evaluate_all("all => all.map(row => row.cells[1].dataset.value ?? null)")
        assert values[-1] is None  # unmeasured rows come last either way
        numbers = [float(value) for value in values[:-1]]
        assert numbers == sorted(numbers, reverse=descending)
    headers.nth(0).click()
    assert sorted(visit.page.locator("#cases tbody tr td:first-child").all_text_contents()) == sorted(_NAMES)


_CUT_OFF = """() => [...document.querySelectorAll('main *')].filter(one => !one.closest('svg'))
    .filter(one => one.getBoundingClientRect().right > innerWidth).map(one => one.outerHTML)"""


@pytest.mark.slow
def test_it_is_read_on_a_phone(visit: sites.Visit) -> None:
    """Nothing is cut off, and what marks mean is said once, by the page's buttons."""
    visit.page.set_viewport_size({"width": 390, "height": 844})
    assert not visit.page.evaluate(_CUT_OFF)
    expect(visit.page.locator("svg.chart:visible")).to_have_class("chart narrow")
    expect(visit.page.locator("#cases th").first).to_be_visible()
    assert "matmul" not in visit.page.locator("svg.chart text").all_text_contents()
    assert visit.page.locator('.legend button[data-family="matmul"]').count() == 1


@pytest.mark.slow
def test_a_mark_explains_itself(visit: sites.Visit) -> None:
    mark, tip = visit.page.locator('.wide .mark[data-row="3"]'), visit.page.locator("#tip")
    mark.dispatch_event("mouseenter")
    expect(tip).to_be_visible()
    expect(tip).to_contain_text(builders.HOSTILE[0])
    assert tip.locator("*").count() == 0
    assert visit.page.locator("tr.on").count() == 1
    mark.dispatch_event("mouseleave")
    expect(tip).to_be_hidden()


@pytest.mark.slow
def test_families_fade(visit: sites.Visit) -> None:
    button = visit.page.locator('.legend button[data-family="matmul"]')
    for faded in (1, 0):
        button.click()
        assert visit.page.locator(".wide .mark.off").count() == faded


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("light", 390), ("dark", 390)])
def test_a_passport_fits_the_reader(scheme: Any, width: int, chromium: Browser, tmp_path: Path) -> None:
    html = tmp_path / "machine.html"
    doubtful = {"read/impl:stream/bytes:65536": {"noisy": 1.0}}
    result = machines.Machine(said=doubtful, context={"device": builders.HOSTILE[0]}).write(tmp_path / "machine.jsonl")
    assert main(["machine", str(result), f"--html={html}"]) == 0
    with sites.visit(chromium, color_scheme=scheme, viewport={"width": width, "height": 844}) as visit:
        visit.page.goto(html.as_uri())
        assert visit.page.locator("h1").inner_text() == f"Passport of {builders.HOSTILE[0]}, 2 threads"
        assert visit.page.locator("svg.chart:visible").count() == 4
        assert not visit.page.evaluate(_CUT_OFF)
        lightness = visit.page.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
        assert (lightness < 64) == (scheme == "dark")
        levels = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        assert not Axe().run(visit.page, options={"runOnly": levels}).response["violations"]
        assert visit.requests == [html.as_uri()] and not visit.complaints
