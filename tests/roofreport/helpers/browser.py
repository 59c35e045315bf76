# SPDX-License-Identifier: Apache-2.0
"""The system's own Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def launched() -> Iterator[Browser]:
    """Raises FileNotFoundError."""
    program = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if program is None:
        raise FileNotFoundError("no Chromium or Chrome is installed")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"], timeout=120_000
        )
        yield browser
        browser.close()
