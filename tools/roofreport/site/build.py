# SPDX-License-Identifier: Apache-2.0
"""From a history to a folder of pages."""

from __future__ import annotations

import math
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from roofreport import units
from roofreport.errors import UnusableInputError
from roofreport.files import copy, followed, writing_to
from roofreport.gate.verdicts import Finding, judge
from roofreport.history.records import Series
from roofreport.history.store import open_store
from roofreport.io.contract import TIME, packaged
from roofreport.project_folder import INSTALLS, REPORT
from roofreport.render.formats import breakable
from roofreport.site import overview
from roofreport.site.data import (
    Catalog,
    commit_log,
    details_data,
    entries_of,
    night_data,
    samplings,
    script_text,
    series_data,
    token,
    words,
)
from roofreport.site.nights import by_night

PROJECT = "roofbench"
SCRIPTS = ("bokeh.min.js", "bokeh-api.min.js")


def copy_chart_library(to: Path) -> None:
    """Includes its license, which each of the scripts begins with. Raises UnusableInputError, OSError."""
    spec = find_spec("bokeh")  # an import takes a second
    for place in (spec.submodule_search_locations if spec else None) or ():
        scripts = [Path(place) / "server/static/js" / name for name in SCRIPTS]
        if all(script.is_file() for script in scripts):
            to.mkdir(parents=True, exist_ok=True)
            for script in scripts:
                copy(script, to / script.name)
            return
    raise UnusableInputError(f"the charts need the Python package bokeh; {INSTALLS}")


# Marks a folder as replaceable.
_MARK = ".roofbench-site"


def _refuse_foreign(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UnusableInputError(f"--out={out}: is not a folder; name another one")
    if out.is_dir() and not (out / _MARK).exists() and any(out.iterdir()):
        raise UnusableInputError(f"--out={out}: holds other files than a site; name another folder")


@contextmanager
def replacing_folder(out: Path) -> Iterator[Path]:
    """A new folder next to `out`, which takes its place when the block ends well. Raises UnusableInputError."""
    with writing_to(out):
        _refuse_foreign(out)
        followed(out.parent).mkdir(parents=True, exist_ok=True)
        suffix = secrets.token_hex(8)
        fresh, old = (out.parent / f".{suffix}.{kind}" for kind in ("part", "old"))
        fresh.mkdir()
        try:
            yield fresh
            (fresh / _MARK).write_text(f"a site of {REPORT} site, which replaces this folder\n", encoding="utf-8")
            if out.exists():
                out.rename(old)
            fresh.rename(out)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)


_HERE = Path(__file__).parent
_BASE = ("data.js", "units.js", "dom.js", "link.js", "table.js")
_CHARTS = (*SCRIPTS, *_BASE, "charts.js")
# The scripts of each page, in the order in which they run.
PAGES = {
    "index": (*_BASE, "overview.js"),
    "case": (*_CHARTS, "history_chart.js", "night.js", "case.js"),
    "compare": (*_BASE, "compare.js"),
    "roofline": (*_CHARTS, "roofline.js"),
}
# Nothing loads from another host, and scripts or addresses in a name do not run. Bokeh styles its elements.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)


def _sortable(value: float) -> str:
    """The sort key of a cell; empty without a figure."""
    return f"{value:.9g}" if math.isfinite(value) else ""


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("roofreport.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"sortable": _sortable, "breakable": breakable, "counted": units.counted}
    return made


def write_pages(folder: Path, facts: Mapping[str, Any]) -> None:
    made = environment()
    for name, scripts in PAGES.items():
        page = made.get_template(f"{name}.html").render(page=name, scripts=scripts, policy=_POLICY, **facts)
        (folder / f"{name}.html").write_text(page, encoding="utf-8", errors="backslashreplace")
    (folder / "assets").mkdir(exist_ok=True)
    for asset in (_HERE.parent / "render/cards.css", *(_HERE / "assets").iterdir()):
        copy(asset, folder / "assets" / asset.name)


@dataclass(frozen=True)
class Built:
    series: int
    runs: int
    bytes: int


def _write(site: Path, name: str, value: Any) -> None:
    """A script of data."""
    path = site / "data" / f"{name}.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script_text(name, value), encoding="ascii")


def build(where: str, out: Path, metrics: Sequence[str], repository: Path | None = None, title: str = PROJECT) -> Built:
    """`where`: a history, as open_store() takes it; `title`: the name of the project. Raises UnusableInputError."""
    contract = packaged()
    with replacing_folder(out) as site, open_store(where) as store:
        committed = commit_log(repository) if repository else []
        copy_chart_library(site / "assets")
        all_runs = store.runs()
        histories = {name: by_night(store.history(name), all_runs, contract.metric(name) or TIME) for name in metrics}
        findings: dict[Series, list[Finding]] = {}
        for finding in (finding for name in metrics for finding in judge(store, name)):
            findings.setdefault(finding.series, []).append(finding)
        catalog = Catalog(histories, all_runs, contract)
        _write(site, "commits", committed)
        _write(site, "index", catalog.data())
        sampled = samplings(store, where, catalog.runs)
        entries = entries_of(histories, contract)
        for first in catalog.nights:
            _write(site, f"night/{token(first.digest)}", night_data(first, entries[first.digest], catalog, sampled))
        annotations = store.annotations()
        detailed: set[str] = set()  # once for all metrics of a case
        for name, history in histories.items():
            metric = contract.metric(name) or TIME
            for series, nights in history.items():
                own = series_data(series, nights, findings.get(series, []), annotations, metric, catalog)
                _write(site, f"series/{token(series.key)}", own)
                if own["details"] not in detailed:
                    detailed.add(own["details"])
                    _write(site, f"details/{own['details']}", details_data(nights, sampled.get(series.case, {})))
        made = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
        rows = overview.overview(histories, findings, contract)
        counts = {"nights": len(catalog.nights), "runs": len(catalog.runs)}
        write_pages(site, {"overview": rows, "made": made, "title": words(title, 80), **counts})
        size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    return Built(len(catalog.series), len(catalog.runs), size)
