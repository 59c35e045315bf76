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

from roofreport.errors import UnusableInputError
from roofreport.files import reason
from roofreport.gate import judge
from roofreport.gate.verdicts import Finding
from roofreport.history.records import Annotation, Reading, Series
from roofreport.history.store import open_store
from roofreport.io.contract import TIME, Contract, packaged
from roofreport.site import overview
from roofreport.site.data import (
    Catalogue,
    Samples,
    by_run,
    case_token,
    commit_log,
    details_data,
    run_data,
    script_text,
    series_data,
    token,
)
from roofreport.text import printable

SCRIPTS = ("bokeh.min.js", "bokeh-api.min.js")


def _folder() -> Path:
    """Without importing the package, which takes a second."""
    spec = find_spec("bokeh")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        scripts = Path(place) / "server" / "static" / "js"
        if all((scripts / name).is_file() for name in SCRIPTS):
            return scripts
    raise UnusableInputError("the charts need Bokeh: python -m pip install -r tools/requirements-history.txt")


def copy_chart_library(to: Path) -> None:
    """Includes its license, which each of the scripts begins with. Raises UnusableInputError, OSError."""
    folder = _folder()
    to.mkdir(parents=True, exist_ok=True)
    for name in SCRIPTS:
        shutil.copyfile(folder / name, to / name)


# Marks a folder as replaceable.
_MARK = ".roofbench-site"


def _refuse_foreign(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UnusableInputError(f"--out={printable(str(out))}: is not a folder; name another one")
    if out.is_dir() and not (out / _MARK).exists() and any(out.iterdir()):
        raise UnusableInputError(f"--out={printable(str(out))}: holds other files than a site; name another folder")


@contextmanager
def replacing_folder(out: Path) -> Iterator[Path]:
    """A new folder next to `out`, which takes its place when the block ends well. Raises UnusableInputError."""
    try:
        _refuse_foreign(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        suffix = secrets.token_hex(8)
        fresh, old = (out.parent / f".{suffix}.{kind}" for kind in ("part", "old"))
        fresh.mkdir()
        try:
            yield fresh
            (fresh / _MARK).write_text("a site of tools/report site, which replaces this folder\n", encoding="utf-8")
            if out.exists():
                out.rename(old)
            fresh.rename(out)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise UnusableInputError(f"cannot write {printable(str(out))}: {reason(error)}") from error


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
    made.filters["sortable"] = _sortable
    return made


def write_pages(folder: Path, facts: Mapping[str, Any]) -> None:
    made = environment()
    for name, scripts in PAGES.items():
        page = made.get_template(f"{name}.html").render(page=name, scripts=scripts, policy=_POLICY, **facts)
        (folder / f"{name}.html").write_text(page, encoding="utf-8", errors="backslashreplace")
    shutil.copytree(_HERE / "assets", folder / "assets", dirs_exist_ok=True)


Histories = Mapping[str, Mapping[Series, list[Reading]]]


@dataclass(frozen=True)
class Built:
    series: int
    runs: int
    bytes: int


class _Data:
    """The scripts of data in a site."""

    def __init__(self, site: Path) -> None:
        self._folder = site / "data"

    def write(self, name: str, value: Any) -> None:
        path = self._folder / f"{name}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script_text(name, value), encoding="ascii")


def _write_runs(data: _Data, histories: Histories, catalogue: Catalogue) -> None:
    readings = by_run(histories)
    for run in catalogue.runs:
        data.write(f"run/{token(run.digest)}", run_data(run, readings[run.digest], catalogue))


def _write_series(
    data: _Data,
    annotations: Sequence[Annotation],
    histories: Histories,
    findings: Mapping[Series, Sequence[Finding]],
    catalogue: Catalogue,
    contract: Contract,
) -> None:
    for name, history in histories.items():
        metric = contract.metric(name) or TIME
        for series, readings in history.items():
            own = series_data(series, readings, findings.get(series, []), annotations, metric, catalogue)
            data.write(f"series/{token(series.key)}", own)


def _write_details(data: _Data, histories: Histories, samples: Samples) -> None:
    """A file for all metrics of a case."""
    written = set()
    for history in histories.values():
        for series, readings in history.items():
            name = case_token(series)
            if name not in written:
                written.add(name)
                data.write(f"details/{name}", details_data(readings, samples.of(series)))


def _by_series(findings: Sequence[Finding]) -> dict[Series, list[Finding]]:
    found: dict[Series, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.series, []).append(finding)
    return found


def build(where: str, out: Path, metrics: Sequence[str], repository: Path | None = None) -> Built:
    """`where`: a history, as open_store() takes it. Raises UnusableInputError."""
    contract = packaged()
    with replacing_folder(out) as site, open_store(where) as store:
        committed = commit_log(repository) if repository else []
        copy_chart_library(site / "assets")
        histories = {name: store.history(name) for name in metrics}
        findings = _by_series([finding for name in metrics for finding in judge(store, name)])
        catalogue = Catalogue(histories, contract)
        data = _Data(site)
        data.write("commits", committed)
        data.write("index", catalogue.data(_counters(histories)))
        _write_runs(data, histories, catalogue)
        _write_series(data, store.annotations(), histories, findings, catalogue, contract)
        _write_details(data, histories, Samples(store, where, catalogue.runs))
        made = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
        rows = overview.overview(histories, findings, contract)
        write_pages(site, {"overview": rows, "made": made, "runs": len(catalogue.runs)})
        size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    return Built(len(catalogue.series), len(catalogue.runs), size)


def _counters(histories: Histories) -> list[str]:
    """Every counter that occurs. Many readings have the same names in the same order."""
    layouts = {tuple(one.counters) for rows in histories.values() for readings in rows.values() for one in readings}
    return sorted({name for names in layouts for name in names})
