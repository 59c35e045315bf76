# SPDX-License-Identifier: Apache-2.0
"""Sites of synthetic histories, and a browser that records requests and complaints."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import builders
import years
from playwright.sync_api import Browser, Page
from roofreport.cli import main
from roofreport.history import tables
from roofreport.history.record import of_file
from roofreport.history.store import open_store
from scratch_repository import git

# On a machine that does much else. Nothing waits that long where all is well.
PATIENCE_MS = 600_000
PAGES = ("index", "case", "compare", "roofline")

SLOWER, FASTER, FAILED, STEADY = "softmax/impl:a/n:1", "gemv/impl:a/n:2", "copy/impl:a/n:3", "matmul/impl:a/n:4"
CASES = (SLOWER, FASTER, FAILED, STEADY, *(f"gelu/impl:a/n:{size}" for size in range(8)))
NIGHTS = 24
PROCESSES = 3  # of the newest nightly runs
CHANGED = 18  # the nightly run from which the first two differ
WHY = "the new allocator costs that"

# Text that a page, a terminal, a spreadsheet or a number parser could interpret.
HOSTILE = (
    *("<img src=x onerror=planted()>", "<script>planted()</script>", '"><img src=x onerror=planted()>'),
    *("'><svg onload=planted()>", "</script><script>planted()</script>", "</style><img src=x onerror=planted()>"),
    *("</title><img src=x onerror=planted()>", "--><img src=x onerror=planted()><!--"),
    *("<iframe src=javascript:planted()>", "<a href=javascript:planted()>x</a>", "javascript:planted()"),
    *("<details open ontoggle=planted()>", "<base href=https://example.com/>"),
    *("<meta http-equiv=refresh content='0;url=https://example.com/'>",),
    *("<link rel=stylesheet href=https://example.com/a.css>", "<style>*{display:none}</style>"),
    *("{{ 7 * 7 }}{% raw %}", "${planted()}", "@name{safe}@{case}", "=cmd|' /C calc'!A0", "+1+1", "@SUM(1,2)"),
    *("\u202egnp.exe\u202c", "\u2066\u2067right\u2069", "a\u2028b\u2029c", "a\x1b[31mred\x07"),
    *("../../../../etc/passwd", "con/..\\..\\x%00%2e%2e", "&lt;img src=x onerror=planted()&gt;&#60;b&#62;"),
    *("1e999999" + "9" * 400, "__proto__/constructor:toString", "\U0001f4a9\u0301\u0301\u0301zalgo"),
)


@dataclass(frozen=True)
class Site:
    folder: Path
    store: Path

    def url(self, page: str, view: str = "") -> str:
        return f"{(self.folder / f'{page}.html').as_uri()}{view and '#' + view}"


def build(folder: Path, store: Path, *flags: str) -> Site:
    out = folder / "site"
    assert main(["site", f"--store={store}", f"--out={out}", *flags]) == 0
    return Site(out, store)


def plain(folder: Path) -> Site:
    """Two machines, the second with a few nightly runs; a case that got slower, one that got faster and was accepted,
    one that fails.
    """
    changes = {
        SLOWER: years.Change(CHANGED, 1.3),
        FASTER: years.Change(CHANGED, 0.7),
        FAILED: years.Change(NIGHTS - 1, reason="out of luck"),
    }
    store = folder / "history.db"
    with open_store(str(store), create=True) as opened:
        year = years.Year(CASES, NIGHTS, changes=changes)
        years.fill(opened, year, folder, range(CHANGED - 2))
        years.fill(opened, replace(year, processes=PROCESSES), folder, range(CHANGED - 2, NIGHTS))
        other = years.Year(CASES, NIGHTS, context={"device": "Other CPU"}, seed=1)
        years.fill(opened, other, folder, range(NIGHTS - 3, NIGHTS - 1))
        opened.accept(FASTER, years.FIRST + timedelta(days=CHANGED), WHY)
    return build(folder, store, "--metric=time", "--metric=peak_mem")


def _commit(repository: Path, message: str) -> str:
    git(repository, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(repository, "rev-parse", "HEAD")


def hostile(folder: Path) -> Site:
    """Every name in it is one of HOSTILE: of cases, machine, commit, reason, file, annotation, counter, context."""
    repository = folder / "repository"
    repository.mkdir()
    git(repository, "init", "--quiet")
    store = folder / "history.db"
    image = HOSTILE[0]
    # Readers reject names with control characters and long names; a database written by another program may contain
    # them.
    taken = {name: name.isprintable() and len(name) < 200 for name in HOSTILE}
    spelt = {name if taken[name] else f"plain/n:{place}": name for place, name in enumerate(HOSTILE)}
    with open_store(str(store), create=True) as opened:
        for night in range(7):
            revision = _commit(repository, f"{image} {night}")
            context = {"device": image, "torch_version": image, "cpu_isa": image, image: image, "reference": image}
            context["roofbench_revision"] = revision if night < 6 else image
            changes = {HOSTILE[1]: years.Change(6, reason=image)}
            years.fill(opened, years.Year(tuple(spelt), 7, changes=changes, context=context), folder, [night])
        huge = builders.line("huge/n:1", 1e3) | {"median_s": 1e6, "samples_s": [1e6, 1e-12]}
        huge["counters"] = {image: 1e100, "roof": 1e-100, "FLOP/s": 1e100, "bytes/s": 1e-100, "peak_mem": 1e100}
        path = folder / f"{image.replace('/', '')}.jsonl"
        path.write_text(builders.journal_text(builders.header(), huge))
        opened.add(of_file(path))
        opened.accept("", years.FIRST, image)
    with closing(sqlite3.connect(store)) as database, database:
        database.executemany(
            f"UPDATE {tables.cases.name} SET name = ? WHERE name = ?", [(spelt[name], name) for name in spelt]
        )
        database.execute(f"UPDATE {tables.readings.name} SET seconds = 1e300 WHERE seconds = 1e6")
    with open_store(str(store)) as opened:
        for series in opened.history("time"):
            opened.accept(series.key, years.FIRST, "\n".join(HOSTILE), kind="profile")
    return build(folder, store, "--metric=time", "--metric=peak_mem", f"--repository={repository}", f"--title={image}")


def planted(folder: Path) -> Site:
    """Two cases that are 12 % slower in the newest night of three processes; a second run confirmed the first of them,
    with profiles, and dismissed the other.
    """
    store = folder / "history.db"
    year = years.Year(
        CASES, NIGHTS, changes=dict.fromkeys(CASES[:2], years.Change(NIGHTS - 1, 1.12)), processes=PROCESSES
    )
    with open_store(str(store), create=True) as opened:
        years.fill(opened, year, folder)
        keys = {series.case: series.key for series in opened.history("time")}
        night = years.FIRST + timedelta(days=NIGHTS - 1)
        for case, kind in zip(CASES[:2], ("confirmed", "dismissed"), strict=True):
            opened.accept(keys[case], night, f"+12 %; A B B A {kind} it", kind=kind)
        for days, profile in ((9, "of an older night"), (0, "kernel     old     new\naten::mm  1 ms  1.12 ms")):
            opened.accept(keys[CASES[0]], night - timedelta(days=days), profile, kind="profile")
    return build(folder, store)


@dataclass
class Visit:
    """One page, the requests that it made, and the errors that it reported."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, url: str) -> Page:
        # A change after # alone would not reload the page.
        self.page.goto("about:blank")
        self.page.goto(url)
        self.page.wait_for_selector("html[data-usable]", state="attached")
        return self.page

    def strays(self, site: str) -> list[str]:
        """Complaints, and requests to elsewhere than the folder or server `site`."""
        own = (site, "about:blank", "data:,")
        return self.complaints + [url for url in self.requests if not url.startswith(own)]


@contextmanager
def visit(browser: Browser, **options: Any) -> Iterator[Visit]:
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    made = Visit(page)
    page.on("request", lambda request: made.requests.append(request.url))
    page.on("requestfailed", lambda request: made.complaints.append(f"failed: {request.url}"))
    page.on("pageerror", lambda error: made.complaints.append(str(error)))
    page.on("console", lambda said: made.complaints.append(said.text) if said.type in ("error", "warning") else None)
    try:
        yield made
    finally:
        context.close()


def view_of(page: Page, name: str) -> str:
    """The state after the # in the address of the case's page; `page` shows the overview."""
    links = page.locator("td.name a")
    place = links.all_text_contents().index(name)
    return (links.nth(place).get_attribute("href") or "").partition("#")[2]
