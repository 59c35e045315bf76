# SPDX-License-Identifier: Apache-2.0
"""The roofline page in headless Chromium, opened from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import browser
import builders
import pytest
from roofreport.cli import main

_PROGRAM = browser.find()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_PROGRAM is None, reason="no Chromium or Chrome is installed"),
]


@pytest.fixture
def page(tmp_path: Path) -> Iterator[browser.Browser]:
    rows = builders.scaled(1.0)
    rows += [builders.row(name, 1.0) | {"FLOP/s": 1e9, "bytes/s": 1e9} for name in builders.HOSTILE]
    rows += [builders.error_row("huge/n:1", "skipped: out of memory: <b>80 GB</b>")]
    result = builders.write_json(tmp_path / "run.json", rows)
    html = tmp_path / "page.html"
    assert main(["roofline", str(result), f"--html={html}"]) == 0
    assert _PROGRAM is not None
    with browser.Browser(_PROGRAM, tmp_path / "profile") as opened:
        opened.open(html.as_uri())
        yield opened
        # After any test: no request except for the file, and no complaint.
        urls = [event["request"]["url"] for event in opened.named("Network.requestWillBeSent")]
        assert urls == [html.as_uri()]
        assert not opened.named("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        assert not opened.named("Page.javascriptDialogOpening")


def _names() -> list[str]:
    return [*builders.TIMES, *builders.HOSTILE, "huge/n:1"]


_FIRST_CELLS = "[...document.querySelectorAll('#cases tbody tr')].map((row) => row.cells[0].textContent)"


def test_shows_every_case_as_text(page: browser.Browser) -> None:
    assert page.evaluate(_FIRST_CELLS) == _names()
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.querySelectorAll('h1').length") == 1
    assert page.evaluate("document.querySelectorAll('.mark[data-row]').length") == 2 + len(builders.HOSTILE)
    assert page.evaluate("document.querySelector('#cases').getBoundingClientRect().height") > 100


def test_sorts(page: browser.Browser) -> None:
    times = "[...document.querySelectorAll('#cases tbody tr')].map((row) => row.cells[1].dataset.value ?? null)"
    click = "document.querySelectorAll('#cases th button')[1].click()"
    for descending in (True, False):
        page.evaluate(click)
        values = page.evaluate(times)
        assert values[-1] is None  # unmeasured rows come last either way
        numbers = [float(value) for value in values[:-1]]
        assert numbers == sorted(numbers, reverse=descending)
    page.evaluate("document.querySelectorAll('#cases th button')[0].click()")
    assert sorted(page.evaluate(_FIRST_CELLS)) == sorted(_names())


def test_hovering_explains_a_point(page: browser.Browser) -> None:
    page.evaluate("document.querySelector('.mark[data-row=\"3\"]').dispatchEvent(new MouseEvent('mouseenter'))")
    assert page.evaluate("document.getElementById('tip').hidden") is False
    assert builders.HOSTILE[0] in page.evaluate("document.getElementById('tip').textContent")
    assert page.evaluate("document.getElementById('tip').children.length") == 0
    assert page.evaluate("document.querySelectorAll('tr.on').length") == 1
    page.evaluate("document.querySelector('.mark[data-row=\"3\"]').dispatchEvent(new MouseEvent('mouseleave'))")
    assert page.evaluate("document.getElementById('tip').hidden") is True


def test_families_fade(page: browser.Browser) -> None:
    faded = "[...document.querySelectorAll('.mark.off')].length"
    button = "document.querySelector('.legend button[data-family=\"matmul\"]').click()"
    page.evaluate(button)
    assert page.evaluate(faded) == 1
    page.evaluate(button)
    assert page.evaluate(faded) == 0


def test_injected_script_does_not_run(page: browser.Browser) -> None:
    """The policy itself: even an injected script does not run."""
    page.evaluate(
        "(() => { const one = document.createElement('script'); one.textContent = 'window.ran = 1';"
        " document.body.append(one); })()"
    )
    assert page.evaluate("window.ran === undefined") is True
    page.events = [event for event in page.events if event[0] != "Log.entryAdded"]
