#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the site of a large history takes to write, how large it is, and how soon its pages open.

    tests/roofreport/site/measure_site.py [--series=500] [--nights=365] [--store=FILE]

It wants a machine on which nothing else runs. --store: a history to measure instead of a made-up one, or where the
made-up one is kept.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(_ROOT / "tools"), str(_ROOT / "tests/roofreport/helpers")]

import browser  # noqa: E402
import sites  # noqa: E402
import years  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402
from roofreport.history.store import open_store  # noqa: E402
from roofreport.site.build import build  # noqa: E402

_SAMPLES = 40
_OPENED = 7
# Seconds and bytes.
_MOST = {"site": 60.0, "bytes": 100e6, "index": 2.0, "case": 1.0, "compare": 2.0, "roofline": 2.0}


def _fill(store: Path, series: int, nights: int) -> None:
    cases = years.names(series)
    changes = {
        cases[3]: years.Change(nights - 30, 1.12),
        cases[8]: years.Change(nights - 60, 0.8),
        cases[17]: years.Change(nights - 1, 1.3),
        cases[5]: years.Change(nights - 3, reason="out of luck"),
    }
    with open_store(str(store), create=True) as opened, tempfile.TemporaryDirectory() as folder:
        years.fill(opened, years.Year(cases, nights, samples=_SAMPLES, changes=changes), Path(folder))


def _opening(chromium: Browser, url: str) -> float:
    """Seconds from the click to a page that is drawn and can be used, with nothing of it in a cache."""
    with sites.visit(chromium, viewport={"width": 1280, "height": 900}) as visit:
        page = visit.open(url)
        milliseconds: float = page.evaluate("performance.getEntriesByName('usable')[0].startTime")
        return milliseconds / 1e3


def _pages(site: sites.Site) -> dict[str, list[float]]:
    with browser.launched() as chromium:
        with sites.visit(chromium) as visit:
            view = visit.open(site.url("index")).locator("td.name a").first.get_attribute("href") or ""
        urls = {page: site.url(page, view.partition("#")[2] if page == "case" else "") for page in sites.PAGES}
        return {page: [_opening(chromium, url) for _ in range(_OPENED)] for page, url in urls.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=500)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--store", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = args.store or Path(folder) / "history.db"
        if not store.exists():
            _fill(store, args.series, args.nights)
        began = time.monotonic()
        built = build(str(store), Path(folder) / "site", ["time"])
        found = {"site": time.monotonic() - began, "bytes": float(built.bytes)}
        print(f"{built.series} series of {built.runs} runs: {found['site']:.1f} s, {built.bytes / 1e6:.1f} MB")
        for page, times in _pages(sites.Site(Path(folder) / "site", store)).items():
            found[page] = statistics.median(times)
            print(f"{page}: usable after {found[page]:.2f} s ({min(times):.2f} to {max(times):.2f})")
    over = [name for name, most in _MOST.items() if found[name] > most]
    print(f"too much: {', '.join(over)}" if over else "all within their limits")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
