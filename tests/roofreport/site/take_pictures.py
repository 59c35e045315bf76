#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Retakes the pictures of docs/dashboard.md, from a synthetic history.

tests/roofreport/site/take_pictures.py
"""

from __future__ import annotations

import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(_ROOT / "tools"), str(_ROOT / "tests/roofreport/helpers")]

import browser  # noqa: E402
import sites  # noqa: E402
import years  # noqa: E402
from roofreport.history.store import open_store  # noqa: E402
from roofreport.site.build import build  # noqa: E402

_NIGHTS = 120
_SLOWER = "softmax/impl:eager/dtype:bf16/n:64"
_SCREEN = {"width": 1180, "height": 640}
_PHONE = {"width": 390, "height": 800}
# Name of the picture, page, and how it is looked at.
_PICTURES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("overview-light", "index", {"viewport": _SCREEN}),
    ("overview-dark", "index", {"viewport": _SCREEN, "color_scheme": "dark"}),
    ("overview-phone", "index", {"viewport": _PHONE}),
    ("case-light", "case", {"viewport": {**_SCREEN, "height": 1000}}),
    ("case-dark", "case", {"viewport": {**_SCREEN, "height": 1000}, "color_scheme": "dark"}),
    ("case-phone", "case", {"viewport": _PHONE, "color_scheme": "dark"}),
)


def _site(folder: Path) -> sites.Site:
    cases = years.names(40)
    changes = {
        _SLOWER: years.Change(_NIGHTS - 9, 1.12),
        cases[12]: years.Change(_NIGHTS - 1, 1.09),
        cases[17]: years.Change(_NIGHTS - 6, 0.8),
        cases[25]: years.Change(_NIGHTS - 1, reason="the result differs from the reference by 0.04"),
        cases[31]: years.Change(60, 1.2),
    }
    store = folder / "history.db"
    with open_store(str(store), create=True) as opened:
        context = {"device": "AMD EPYC"}
        years.fill(opened, years.Year(cases, _NIGHTS, samples=60, changes=changes, context=context), folder)
        opened.accept(cases[31], years.FIRST + timedelta(days=60), "masks are applied in fp32 now")
    build(str(store), folder / "site", ["time"])
    return sites.Site(folder / "site", store)


def main() -> int:
    out = _ROOT / "docs" / "pictures"
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser.launched() as chromium:
        site = _site(Path(folder))
        with sites.visit(chromium) as visit:
            view = sites.view_of(visit.open(site.url("index")), _SLOWER)
        for name, page, options in _PICTURES:
            with sites.visit(chromium, **options) as visit:
                visit.page.clock.set_fixed_time(years.FIRST + timedelta(days=_NIGHTS - 1, hours=8))
                opened = visit.open(site.url(page, view if page == "case" else ""))
                opened.screenshot(path=out / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
