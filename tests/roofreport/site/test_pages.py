# SPDX-License-Identifier: Apache-2.0
"""The site in headless Chromium: its content, its controls, and the absence of requests to other hosts."""

from __future__ import annotations

import json
import math
import re
import threading
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import builders
import pytest
import sites
import years
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from roofreport.history.record import of_file
from roofreport.history.store import open_store
from roofreport.site import overview

pytestmark = pytest.mark.slow  # a browser opens every page

expect.set_options(timeout=sites.PATIENCE_MS)
_LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def _shown(page: Page) -> list[str]:
    return page.locator("#series tbody tr:not([hidden]) td.name").all_text_contents()


def _case(visit: sites.Visit, site: sites.Site, name: str) -> str:
    return site.url("case", sites.view_of(visit.open(site.url("index")), name))


def _address(visit: sites.Visit, site: sites.Site, page: str) -> str:
    return _case(visit, site, sites.SLOWER) if page == "case" else site.url(page)


def test_the_overview_begins_with_the_worst(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(plain.url("index"))
    timed = page.locator('tr[data-metric="time"][data-machine^="Test CPU"]')
    rows = [row.replace("\xa0", " ") for row in timed.all_inner_texts()]
    assert rows[0].startswith("✕ failed") and sites.FAILED in rows[0]
    assert "worse" in rows[1] and sites.SLOWER in rows[1] and "2026-01-19" in rows[1]
    assert len(rows) == len(sites.CASES)
    accepted = timed.filter(has_text=sites.FASTER).get_attribute("data-change")
    assert abs(float(accepted or "nan")) < 0.05, "against the nights of its level"
    assert timed.nth(3).locator("svg.spark polyline").count() == 1
    expect(page.locator("#count")).to_have_text(f"{len(_shown(page))} of {len(_shown(page))} series")


def test_a_second_run_is_shown_with_its_profiles(chromium: Browser, tmp_path: Path) -> None:
    site = sites.planted(tmp_path)
    with sites.visit(chromium) as visit:
        page = visit.open(site.url("index"))
        rows = [row.replace("\xa0", " ").split("\t") for row in page.locator("#series tbody tr").all_inner_texts()]
        assert rows[0][:2] == ["▲ worse, confirmed", sites.SLOWER] and rows[1][:2] == ["↺ dismissed", sites.FASTER]
        assert {row[0] for row in rows[2:]} == {"· steady"}
        expect(page.locator(".chips .worse")).to_have_text("▲ 1 worse, confirmed")
        views = [sites.view_of(page, name) for name in (sites.SLOWER, sites.FASTER)]
        visit.open(site.url("case", views[1]))
        expect(page.locator("#findings li.steady")).to_have_text(re.compile("↺ dismissed .*A B B A dismissed it"))
        expect(page.locator("#profiles")).to_be_hidden()
        visit.open(site.url("case", views[0]))
        expect(page.locator("#findings li.worse")).to_have_text(re.compile("▲ worse, confirmed .*A B B A confirmed it"))
        details = page.locator("#profiles details")
        expect(details.first.locator("pre")).to_have_text("kernel     old     new\naten::mm  1 ms  1.12 ms")
        expect(details.last.locator("pre")).to_be_hidden()
        details.last.locator("summary").click()
        expect(details.last.locator("pre")).to_have_text("of an older night")
        assert not visit.strays(f"{site.folder.as_uri()}/")
        assert not Axe().run(page, options={"runOnly": _LEVELS}).response["violations"]


@pytest.mark.parametrize(
    ("hours", "said"),
    [(30, ""), (40, "⚠ That is 1 day ago: a night is missing."), (80, "⚠ That is 3 days ago: a night is missing.")],
)
def test_a_missing_night_is_said(visit: sites.Visit, plain: sites.Site, hours: int, said: str) -> None:
    visit.page.clock.set_fixed_time(years.FIRST + timedelta(days=sites.NIGHTS - 1, hours=hours))
    page = visit.open(plain.url("index"))
    expect(page.locator("#age")).to_have_text(said)
    expect(page).to_have_title("Overview · roofbench")


def test_labels_the_roofs(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(plain.url("roofline"))
    labels = """() => Bokeh.documents.flatMap(one => one.roots()).flatMap(root => root.center)
      .filter(one => one.text).map(one => one.text)"""
    listed = [line.split(" ", 1)[1] for line in page.locator("#roofs li").all_inner_texts()]
    assert sorted(page.evaluate(labels)) == sorted(listed) and "measured: read 50 GB/s" in listed


def test_filters(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(plain.url("index"))
    every = len(_shown(page))
    page.get_by_label("Filter").fill("SOFTMAX other")
    assert _shown(page) == [sites.SLOWER] * 2
    page.get_by_label("Metric").select_option("time")
    assert _shown(page) == [sites.SLOWER]
    expect(page.locator("#count")).to_have_text(f"1 of {every} series")
    page.get_by_label("Filter").press("Escape")
    page.get_by_label("Metric").select_option("")
    assert len(_shown(page)) == every
    chip = page.get_by_role("button", name="failed")
    chip.click()
    assert set(_shown(page)) == {sites.FAILED}
    expect(chip).to_have_attribute("aria-pressed", "true")
    chip.click()
    assert len(_shown(page)) == every


def test_sorts(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(plain.url("index", "metric=time&machine=Test+CPU%2C+2+threads"))
    header = page.locator('th[data-key="now"]')
    figures_of = "rows => rows.map(row => row.cells[3].dataset.value)"
    for direction, sign in (("descending", -1), ("ascending", 1)):
        header.get_by_role("button").click()
        expect(header).to_have_attribute("aria-sort", direction)
        values = page.locator("#series tbody tr:not([hidden])").evaluate_all(figures_of)
        assert values[-1] == ""  # the one that fails
        assert values[:-1] == sorted(values[:-1], key=lambda value: sign * float(value))


def _chosen(page: Page) -> list[str]:
    """The visible text, and the value of every field."""
    fields = "all => all.map(one => one.type === 'checkbox' ? String(one.checked) : one.value)"
    return [*page.locator("select, input").evaluate_all(fields), page.locator("main").inner_text()]


def _steer(page: Page, name: str) -> None:
    """Away from how the page opens."""
    if name == "case":
        page.get_by_role("button", name="Earlier").click()
        page.get_by_label("Roof (solid)").check()
        expect(page.locator("#night-facts")).to_contain_text("2026-01-23")
        return
    if name == "roofline":
        page.get_by_label("Family").select_option("gelu")
    elif name == "compare":
        page.locator("#a").select_option(index=4)
        page.get_by_label("Metric").select_option("peak_mem")
        page.get_by_label("Filter").fill("impl:a/n:2")
    else:
        page.get_by_label("Family").select_option("gelu")
        page.get_by_label("Filter").fill("n:3")
    page.get_by_role("columnheader", name="case").get_by_role("button").click()


def test_figures_in_doubt_are_not_called_the_same(chromium: Browser, tmp_path: Path) -> None:
    store = tmp_path / "history.db"
    with open_store(str(store), create=True) as opened:
        for night in (1, 2):
            line = builders.line(sites.STEADY, 10.0)
            line["counters"] |= {"noisy": 1}
            path = tmp_path / f"{night}.jsonl"
            path.write_text(builders.journal_text(builders.header(started=f"2026-01-0{night}T00:00:00+00:00"), line))
            opened.add(of_file(path))
    with sites.visit(chromium) as visit:
        page = visit.open(sites.build(tmp_path, store).url("compare"))
        expect(page.locator("#count")).to_have_text("▲ 0 worse, ▼ 0 better, · 0 the same, ≈ 1 ambiguous")
        assert page.locator("#families tbody tr").count() == 0, "nothing is concluded from them"


@pytest.mark.parametrize("name", sites.PAGES)
def test_an_address_leads_back_to_its_view(visit: sites.Visit, plain: sites.Site, chromium: Browser, name: str) -> None:
    page = visit.open(_address(visit, plain, name))
    plain_view = _chosen(page)
    _steer(page, name)
    assert _chosen(page) != plain_view
    with sites.visit(chromium) as other:
        again = other.open(page.url)
        expect(again.locator("main")).to_have_text(page.locator("main").text_content() or "")
        assert _chosen(again) == _chosen(page)


def test_an_address_that_leads_nowhere_says_so(visit: sites.Visit, plain: sites.Site) -> None:
    for view in ("", "series=../../x", "series=0123456789abcdef&night=%3Cimg%3E"):
        page = visit.open(plain.url("case", view))
        expect(page.locator("#said")).to_contain_text("no such case")


def test_the_page_of_a_case_is_complete(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(_case(visit, plain, sites.SLOWER))
    expect(page.locator("h1")).to_have_text(sites.SLOWER)
    expect(page.locator("#findings")).to_contain_text("2026-01-19")
    expect(page.locator("#counters tbody")).to_contain_text("a100_mem_util")
    expect(page.locator("#command")).to_contain_text("--benchmark_filter")
    expect(page.locator("#night-facts")).to_contain_text("the roof allows")
    expect(page.locator("#night-facts")).to_contain_text("a100-sxm4-40gb allows")
    expect(page.locator("#samples-said")).to_contain_text("24 samples of 3 processes")
    drawn = "() => Bokeh.documents.flatMap(one => one.roots()).map(root => root.renderers.length)"
    assert max(page.evaluate(drawn)) >= 4
    page = visit.open(_case(visit, plain, sites.FASTER))
    expect(page.locator("#findings")).to_contain_text(sites.WHY)
    page = visit.open(_case(visit, plain, sites.FAILED))
    expect(page.locator("#night-facts")).to_contain_text("failed: out of luck")
    spans = """() => Bokeh.documents.flatMap(one => one.roots()).flatMap(root => root.center)
      .filter(one => one.dimension === 'height').map(one => [one.location, one.level])"""
    places = page.evaluate(spans)
    night = 1e3 * (years.FIRST + timedelta(days=sites.NIGHTS - 1)).timestamp()
    assert [level for place, level in places if place == night] == ["overlay", "underlay"], "alarm and choice"


def _figures(site: sites.Site, case: str) -> list[float]:
    """The times of a case in the processes of the newest night."""
    with open_store(str(site.store)) as store:
        (series,) = [one for one in store.series(pattern=case) if one.machine.label.startswith("Test CPU")]
        return [one.value or math.nan for one in store.readings(series)[-sites.PROCESSES :]]


def test_a_night_is_the_median_of_its_processes(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(_case(visit, plain, sites.SLOWER))
    assert page.locator("#night option").count() == sites.NIGHTS
    figures = _figures(plain, sites.SLOWER)
    about = page.locator("#night-facts")
    expect(about).to_contain_text(f"median of 3 processes{overview.shown(median(figures), 's')}")
    expect(page.locator("#samples-said")).to_contain_text("24 samples of 3 processes")
    page.locator("#process").select_option(label=f"process 2: {overview.shown(figures[1], 's')}")
    expect(about).to_contain_text("2, 2026-01-24 03:00 UTC")
    expect(about).to_contain_text(f"time{overview.shown(figures[1], 's')}")
    expect(page.locator("#samples-said")).to_contain_text("8 samples, ")
    page.get_by_label("Each process").check()
    page.get_by_text("All nights").click()
    each = ", ".join(overview.shown(value, "s") for value in figures)
    expect(page.locator("#nights tbody tr").first).to_contain_text(each)


def test_compares_by_the_fence_of_the_gate(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(plain.url("compare"))
    nights = [page.locator(f"#{one} option:checked").inner_text()[:10] for one in "ab"]
    assert nights == ["2026-01-23", "2026-01-24"]
    expect(page.locator("#count")).to_have_text(f"▲ 0 worse, ▼ 0 better, · {len(sites.CASES) - 1} the same")
    labels = page.locator("#a option").all_inner_texts()
    for select, day in (("#a", sites.CHANGED - 1), ("#b", sites.CHANGED)):
        date = f"{years.FIRST + timedelta(days=day):%Y-%m-%d}"
        page.locator(select).select_option(label=next(one for one in labels if one.startswith(date)))
    expect(page.locator("#count")).to_contain_text("▲ 1 worse, ▼ 1 better")
    row = page.locator("#cases tbody tr", has_text=sites.SLOWER)
    expect(row).to_contain_text("± 5.0 %")
    page.get_by_text("Geometric means").click()
    expect(page.locator("#families tr", has_text="gelu").locator("td").first).to_have_text("8")
    softmax = page.locator("#families tr", has_text="softmax").locator("td").all_inner_texts()
    assert softmax == ["1", row.locator('[data-label="change"]').inner_text(), "1", "0"]


def test_compares_commits_by_the_median_of_their_nights(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(plain.url("compare"))
    page.locator("#unit").select_option("commit")
    chosen = page.locator("#b option:checked")
    expect(chosen).to_have_text(f"{years.revision(23)[:12]}, Test CPU, 2 threads, 2 nights until 2026-01-24")
    expect(page.locator("#a option:checked")).to_contain_text(f"{years.revision(21)[:12]}, Test CPU")
    expect(page.locator("#count")).to_contain_text("▲ 0 worse, ▼ 0 better")


def test_compares_any_two_machines(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(plain.url("compare"))
    machines = page.locator("#a").locator("option").all_text_contents()
    other = next(place for place, text in enumerate(machines) if "Other CPU" in text)
    page.locator("#a").select_option(index=other)
    expect(page.locator("#facts-a")).to_contain_text("Other CPU")
    expect(page.locator("#facts-a")).to_contain_text("roof_read50 GB/s")
    row = page.locator("#cases tbody tr", has_text=sites.SLOWER)
    # The other machine has two nights, which give no fence.
    expect(row).to_contain_text("too young")
    expect(page.locator("#count")).to_have_text(re.compile(r"· 0 the same, … \d+ too young"))
    change = row.locator('[data-label="change"]')
    expect(change).to_have_text(re.compile(r"\+\d"))
    page.get_by_role("button", name="Swap").click()
    expect(change).to_have_text(re.compile(r"-\d"))


def test_the_keyboard_is_enough(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(plain.url("index"))
    focused = page.locator(":focus")
    page.keyboard.press("Tab")
    expect(focused).to_have_text("Skip to the content")
    for _ in range(40):
        page.keyboard.press("Tab")
        if focused.get_attribute("id") == "q":
            break
    expect(focused).to_have_attribute("id", "q")
    page.keyboard.type("softmax")
    page.keyboard.press("ArrowDown")
    expect(focused).to_have_text(sites.SLOWER)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(focused).to_have_attribute("id", "q")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(sites.SLOWER)
    expect(page.locator("html[data-usable]")).to_be_attached()
    newest = page.locator("#night").input_value()
    page.locator("#earlier").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#night")).not_to_have_value(newest)
    outline = focused.evaluate("one => getComputedStyle(one).outlineStyle")
    assert outline == "solid"


_PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_names_break_between_their_parts(chromium: Browser, plain: sites.Site) -> None:
    broken = """() => [...document.querySelectorAll('h1, td.name, #counters th')].flatMap(one => {
        const texts = document.createTreeWalker(one, NodeFilter.SHOW_TEXT), found = [];
        while (texts.nextNode()) {
          const range = document.createRange();
          range.selectNodeContents(texts.currentNode);
          if (range.getClientRects().length > 1) found.push(texts.currentNode.data);
        }
        return found.filter(one => /[:_]/.test(one));
      })"""
    with sites.visit(chromium, **_PHONE) as visit:
        for name in sites.PAGES:
            page = visit.open(_address(visit, plain, name))
            assert page.locator("wbr").count() and not page.evaluate(broken)


def test_controls_fold_on_a_phone_unless_the_address_sets_them(chromium: Browser, plain: sites.Site) -> None:
    with sites.visit(chromium, **_PHONE) as visit:
        page = visit.open(plain.url("index"))
        expect(page.locator("#q")).to_be_hidden()
        page.locator(".controls summary").click()
        expect(page.locator("#q")).to_be_visible()
        expect(visit.open(plain.url("index", "q=gelu")).locator("#q")).to_be_visible()
    with sites.visit(chromium) as visit:
        page = visit.open(plain.url("compare"))
        expect(page.locator("#a")).to_be_visible()
        expect(page.locator(".controls summary")).to_be_hidden()


@pytest.mark.parametrize("width", [390, 1280])
def test_labels_of_roofs_are_clear_of_each_other(chromium: Browser, plain: sites.Site, width: int) -> None:
    """A letter of one is nowhere nearer to one of another than a line is high, and none is across its line."""
    near = """() => {
        const [plot] = Bokeh.documents.flatMap(one => one.roots());
        const { width, height } = Bokeh.index.find_one(plot).frame.bbox;
        const log = ({ start, end }, value) => Math.log(value / start) / Math.log(end / start);
        const labels = plot.center.filter(one => one.text).map(one => [...one.text].map((_, i) => [
          log(plot.x_range, one.x) * width + 6 * i * Math.cos(one.angle),
          log(plot.y_range, one.y) * height + 6 * i * Math.sin(one.angle)]));
        const between = (a, b) => Math.min(...a.flatMap(([x, y]) => b.map(([u, v]) => Math.hypot(x - u, y - v))));
        const edge = labels.flat().filter(([x, y]) => x < 0 || y < 0 || x > width || y > height);
        const pairs = labels.flatMap((a, i) => labels.slice(i + 1).map(b => between(a, b)));
        const decades = ({ start, end }) => Math.log(end / start);
        const slope = Math.atan2(height / decades(plot.y_range), width / decades(plot.x_range));
        const turned = plot.center.filter(one => one.text && one.angle).map(one => Math.abs(one.angle - slope));
        return [labels.length, edge.length, Math.min(...pairs), Math.max(...turned)];
      }"""
    with sites.visit(chromium, viewport={"width": width, "height": 844}) as visit:
        count, outside, least, turned = visit.open(plain.url("roofline")).evaluate(near)
    assert count >= 3 and outside == 0 and least >= 10
    assert turned < 0.005, "labels are parallel to their lines"


def test_a_figure_is_that_of_the_processes_that_count(chromium: Browser, tmp_path: Path) -> None:
    """Of three processes of a night, one distrusts its time: everything on the page is of the other two."""
    store = tmp_path / "history.db"
    with open_store(str(store), create=True) as opened:
        for hour, (time, noisy) in enumerate(((10.0, 0), (10.4, 0), (16.0, 1))):
            line = builders.line(sites.STEADY, time)
            line["counters"] |= {"noisy": noisy}
            path = tmp_path / f"{hour}.jsonl"
            path.write_text(builders.journal_text(builders.header(started=f"2026-01-01T0{hour}:00:00+00:00"), line))
            opened.add(of_file(path))
    site = sites.build(tmp_path, store)
    with sites.visit(chromium) as visit:
        index = visit.open(site.url("index"))
        assert index.locator("th[data-key]").all_inner_texts() == ["status", "case", "change", "now", "since"]
        expect(index.locator("main")).to_contain_text("time, Test CPU, 2 threads")
        expect(index.locator('td[data-label="now"]')).to_have_text("10.2 ms")
        page = visit.open(site.url("case", sites.view_of(index, sites.STEADY)))
        expect(page.locator("#night-facts")).to_contain_text("time, median of 2 of 3 processes10.2 ms")
        expect(page.locator("#night-facts")).to_contain_text("not judged1 of 3 processes: noisy")
        expect(page.locator("#counters tr", has_text="mean_ms").locator("td").first).to_have_text("10.3 ms")
        expect(page.locator("#process option").first).to_have_text("the median of 2 of 3")


@pytest.mark.parametrize("name", sites.PAGES)
def test_fits_a_phone(chromium: Browser, plain: sites.Site, name: str) -> None:
    with sites.visit(chromium, **_PHONE) as visit:
        page = visit.open(_address(visit, plain, name))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        labels = """() => [...document.querySelectorAll('td[data-label]:empty')]
            .filter(one => getComputedStyle(one).visibility !== 'hidden').map(one => one.outerHTML)"""
        assert not page.evaluate(labels), "names of nothing"
        broken = """() => [...document.querySelectorAll('#counters td, #counters thead th')]
            .filter(one => !one.textContent.trim().includes(' ') || one.matches('td')).filter(one => {
              const range = document.createRange();
              range.selectNodeContents(one);
              return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1;
            }).map(one => one.textContent)"""
        assert not page.evaluate(broken), "words and figures on two lines"
        outside = """() => [...document.querySelectorAll('main *')].filter(one => !one.closest('.chart *'))
            .filter(one => one.getBoundingClientRect().right > 391).map(one => one.outerHTML)"""
        assert not page.evaluate(outside)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", sites.PAGES)
def test_is_accessible(chromium: Browser, plain: sites.Site, name: str, scheme: str) -> None:
    with sites.visit(chromium, color_scheme=scheme) as visit:
        page = visit.open(_address(visit, plain, name))
        found = Axe().run(page, options={"runOnly": _LEVELS})
        assert not found.response["violations"], found.generate_report()
        assert len(found.response["passes"]) > 10


def test_is_dark_where_the_reader_is(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(_case(visit, plain, sites.SLOWER))
    chart = "() => Bokeh.documents.flatMap(one => one.roots()).at(-1).border_fill_color"
    back = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(back), page.evaluate(chart)
    assert light == ("rgb(255, 255, 255)", "#ffffff")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(back) == "rgb(20, 24, 30)"
    expect(page.locator("#history[data-scheme=dark]")).to_be_attached()
    expect(page.locator("#samples[data-scheme=dark]")).to_be_attached()
    assert page.evaluate(chart) == "#14181e"


def test_prints(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(_case(visit, plain, sites.SLOWER))
    assert page.pdf().startswith(b"%PDF")
    page.emulate_media(media="print")
    expect(page.locator("nav")).to_be_hidden()
    expect(page.locator("#history")).to_be_visible()


def test_works_from_a_web_server(chromium: Browser, plain: sites.Site) -> None:
    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *values: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=plain.folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        with sites.visit(chromium) as visit:
            view = sites.view_of(visit.open(f"{home}index.html"), sites.SLOWER)
            page = visit.open(f"{home}case.html#{view}")
            expect(page.locator("h1")).to_have_text(sites.SLOWER)
            assert not visit.strays(home)
        server.shutdown()


_UNITS = ("s", "ms", "fraction", "B", "tokens/s", "count", "number", "0 or 1", "")


def test_says_figures_as_the_overview_does(visit: sites.Visit, plain: sites.Site) -> None:
    page = visit.open(plain.url("compare"))
    values = [0.0, 1.0, 999.6, 1234.6, 12345678.9, 1.234e-5, 0.000123456, 0.5, 3.4e21, 1e-300, 1e300, -2.5, 37.0]
    rows = [[value, unit] for value in values for unit in _UNITS]
    said = page.evaluate("rows => rows.map(([value, unit]) => units.shown(value, unit))", rows)
    assert said == [overview.shown(value, str(unit)) for value, unit in json.loads(json.dumps(rows))]
    changes = [0.0, 0.0826, -0.5, 8.99, 11.0]
    assert page.evaluate("all => all.map(units.change)", changes) == [overview.change(one) for one in changes]
