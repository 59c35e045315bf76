# SPDX-License-Identifier: Apache-2.0
"""From a store to a folder of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from roofreport.gate import judge
from roofreport.gate.finding import Finding
from roofreport.history.records import Annotation, Reading, Series
from roofreport.history.store import open_store
from roofreport.io.contract import TIME, Contract, packaged
from roofreport.site import chart_library, folder, overview, pages
from roofreport.site.data import commits, details, run_data, script, series_data
from roofreport.site.data.catalogue import Catalogue, token
from roofreport.site.data.samples import Samples

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
        path.write_text(script.text(name, value), encoding="ascii")


def _write_runs(data: _Data, histories: Histories, catalogue: Catalogue) -> None:
    readings = run_data.by_run(histories)
    for run in catalogue.runs:
        data.write(f"run/{token(run.digest)}", run_data.data(run, readings[run.digest], catalogue))


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
            own = series_data.data(series, readings, findings.get(series, []), annotations, metric, catalogue)
            data.write(f"series/{token(series.key)}", own)


def _write_details(data: _Data, histories: Histories, samples: Samples) -> None:
    """A file for all metrics of a case."""
    written = set()
    for history in histories.values():
        for series, readings in history.items():
            name = details.token_of(series)
            if name not in written:
                written.add(name)
                data.write(f"details/{name}", details.data(readings, samples.of(series)))


def _by_series(findings: Sequence[Finding]) -> dict[Series, list[Finding]]:
    found: dict[Series, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.series, []).append(finding)
    return found


def build(where: str, out: Path, metrics: Sequence[str], repository: Path | None = None) -> Built:
    """`where`: a history, as open_store() takes it. Raises UnusableInputError."""
    contract = packaged()
    with folder.replacing(out) as site, open_store(where) as store:
        committed = commits.log(repository) if repository else []
        chart_library.copy(site / "assets")
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
        rows = overview.rows(histories, findings, contract)
        pages.write(site, {"overview": rows, "made": made, "runs": len(catalogue.runs)})
        size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    return Built(len(catalogue.series), len(catalogue.runs), size)


def _counters(histories: Histories) -> list[str]:
    """Every counter that occurs. Many readings have the same names in the same order."""
    layouts = {tuple(one.counters) for rows in histories.values() for readings in rows.values() for one in readings}
    return sorted({name for names in layouts for name in names})
