# SPDX-License-Identifier: Apache-2.0
"""Untrusted names are shown as text in every page, whatever they contain."""

from __future__ import annotations

import pytest
import sites
from playwright.sync_api import Browser, Page, expect
from roofreport.text import printable

pytestmark = pytest.mark.slow  # a browser opens every page

# Elements that no page has, also inside of Bokeh's shadow roots; and what the hostile names would call.
_FOREIGN = """() => {
  const found = [], seen = [document];
  while (seen.length) {
    for (const one of seen.pop().querySelectorAll('*')) {
      if (one.shadowRoot) seen.push(one.shadowRoot);
      const name = one.localName;
      const handlers = [...one.attributes].filter(({ name }) => name.startsWith('on')).length;
      if (['img', 'iframe', 'base', 'object', 'embed'].includes(name) || handlers
          || (name === 'meta' && one.httpEquiv === 'refresh') || (name === 'a' && one.protocol === 'javascript:')
          || (name === 'script' && !one.src) || (name === 'details' && one.hasAttribute('ontoggle')))
        found.push(one.outerHTML.slice(0, 200));
    }
  }
  return found.concat(window.wasPlanted ? ['a planted script ran'] : []);
}"""


def _open(visit: sites.Visit, url: str) -> Page:
    visit.page.add_init_script("window.planted = () => { window.wasPlanted = true; };")
    return visit.open(url)


def _foreign(visit: sites.Visit, site: sites.Site) -> list[str]:
    """Side effects of the names on the open page: elements, scripts and requests."""
    found: list[str] = visit.page.evaluate(_FOREIGN)
    return found + visit.strays(f"{site.folder.as_uri()}/")


def _name(place: int) -> str:
    return printable(sites.HOSTILE[place], 300)


def test_the_overview_and_every_case_show_text(chromium: Browser, hostile: sites.Site) -> None:
    with sites.visit(chromium) as visit:
        page = _open(visit, hostile.url("index"))
        shown = page.locator("td.name").all_text_contents()
        expect(page.locator("header")).to_contain_text(_name(0))
        assert {_name(place) for place in range(len(sites.HOSTILE))} <= set(shown)
        assert not _foreign(visit, hostile)
        page.get_by_label("Filter").fill("<img src=x")
        assert 0 < page.locator("#series tbody tr:not([hidden])").count() < len(shown)
        views = [sites.view_of(page, _name(place)) for place in (0, 1, 4, 16, 18)]
        views.append(sites.view_of(page, "huge/n:1"))
        for view in views:
            page = _open(visit, hostile.url("case", view))
            expect(page.locator("#said")).to_have_text("")
            expect(page.locator("h1")).not_to_have_text("Case")
            assert not _foreign(visit, hostile)


def test_reasons_commits_and_annotations_are_text(chromium: Browser, hostile: sites.Site) -> None:
    image = sites.HOSTILE[0]
    with sites.visit(chromium) as visit:
        page = _open(visit, hostile.url("index"))
        page = _open(visit, hostile.url("case", sites.view_of(page, _name(1))))
        expect(page.locator("#night-facts")).to_contain_text(f"failed: {image}")
        expect(page.locator("#night-facts")).to_contain_text(f"commit{image}")
        expect(page.locator("#findings")).to_contain_text(f"⚑ accepted 2026-01-01: {image}")
        expect(page.locator("#profiles pre")).to_have_text("\n".join(map(_name, range(len(sites.HOSTILE)))))
        page.get_by_role("button", name="Earlier").click()
        expect(page.locator("#commits")).to_contain_text(f"{image} 5")
        assert not _foreign(visit, hostile)


@pytest.mark.parametrize("name", ["compare", "roofline"])
def test_runs_are_text(chromium: Browser, hostile: sites.Site, name: str) -> None:
    with sites.visit(chromium) as visit:
        page = _open(visit, hostile.url(name))
        expect(page.locator("#said")).to_have_text("")
        page.locator("#a, #night").select_option(index=2)
        expect(page.locator("main")).to_contain_text(_name(0))
        assert not _foreign(visit, hostile)


def test_what_hovers_over_a_mark_is_text(chromium: Browser, hostile: sites.Site) -> None:
    with sites.visit(chromium) as visit:
        page = _open(visit, hostile.url("roofline"))
        page.locator("#night").select_option(index=2)
        marks = """() => {
          const plot = Bokeh.documents.flatMap(one => one.roots()).at(-1);
          const view = Bokeh.index.find_one(plot);
          const mark = plot.renderers.at(-1);
          const [x, y] = [mark.data_source.data.x[0], mark.data_source.data.y[0]];
          const box = view.el.getBoundingClientRect();
          return [box.left + view.frame.x_scale.compute(x), box.top + view.frame.y_scale.compute(y)];
        }"""
        page.locator("#chart").scroll_into_view_if_needed()
        x, y = page.evaluate(marks)
        page.mouse.move(x - 3, y)
        page.mouse.move(x, y)
        tip = page.get_by_text("of its roof", exact=False).first
        expect(tip).to_be_visible()
        assert not _foreign(visit, hostile)
