# SPDX-License-Identifier: Apache-2.0
"""What is judged: nights out of a history, and results that may not be in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from roofreport.errors import UnusableInputError
from roofreport.gate import fence, nights, standing
from roofreport.gate.nights import Nights
from roofreport.history import document as documents
from roofreport.history.fingerprint import machine_of, toolchain_of
from roofreport.history.records import Reading, Run, Series
from roofreport.io.contract import Metric
from roofreport.io.result import State, merged
from roofreport.text import printable

if TYPE_CHECKING:
    from roofreport.history.store import Store

NIGHTS_READ = standing.LONGEST + fence.NIGHTS


@dataclass(frozen=True)
class Given:
    """A result file, as a history would have it."""

    run: Run
    readings: Mapping[str, Reading] = field(default_factory=dict)  # by case, of one metric


def given(path: Path, number: int, metric: Metric) -> Given:
    """`number`: one that no run of a history has."""
    result, document = documents.of_file(path)
    digest, _ = documents.digests(document)
    started = documents.moment(result.date) or datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
    revision = result.context.get("roofbench_revision", "")
    run = Run(
        number,
        digest,
        started,
        "" if revision == "unknown" else revision,
        machine_of(result.context),
        toolchain_of(result.context, document.contract),
        result.context,
        path.name,
    )
    readings = {}
    for name, repetitions in result.by_name().items():
        case = merged(repetitions)
        value = case.value(metric.name) if case.state is State.MEASURED else None
        noisy = case.counters.get("noisy", 0.0) > 0
        readings[name] = Reading(run, value, case.state, case.reason, noisy, case.counters)
    return Given(run, readings)


def _house(run: Run) -> tuple[str, str]:
    return run.machine.id, run.toolchain.id


def _of_store(store: Store, metric: Metric, kept: Sequence[Run], runs: Sequence[Run]) -> dict[Series, list[Reading]]:
    """No older runs are read than it takes to have `kept`, some of the newest of `runs`."""
    oldest: dict[tuple[str, str], int] = {}
    of_house: dict[tuple[str, str], int] = {}
    wanted = {run.id for run in kept}
    for run in reversed(runs):
        of_house[_house(run)] = of_house.get(_house(run), 0) + 1
        if run.id in wanted:
            oldest[_house(run)] = of_house[_house(run)]
    if not oldest:
        return {}
    found = store.history(metric.name, run_limit=max(oldest.values()))
    return {series: list(readings) for series, readings in found.items()}


def newest(store: Store, metric: Metric) -> list[Nights]:
    """Of every machine, the newest nights of the toolchain that it ran last."""
    runs = store.runs()
    last = {run.machine.id: run.toolchain.id for run in runs}
    kept = [run for run in runs if last[run.machine.id] == run.toolchain.id]
    kept = _newest_nights(kept)
    return nights.grouped(_of_store(store, metric, kept, runs), kept, metric)


def _newest_nights(runs: Sequence[Run]) -> list[Run]:
    by_house: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        by_house.setdefault(_house(run), []).append(run)
    kept = []
    for own in by_house.values():
        numbers = nights.numbered(own)
        kept += [run for run, night in zip(own, numbers, strict=True) if night > numbers[-1] - NIGHTS_READ]
    return kept


def up_to(store: Store, metric: Metric, paths: Sequence[Path]) -> list[Nights]:
    """The nights up to that of some results of one machine and toolchain, which are in the history or are not."""
    runs = store.runs()
    # The history may know better when a run began.
    known = {run.digest: run for run in runs}
    files = [given(path, -1 - i, metric) for i, path in enumerate(paths)]
    tonight = sorted((known.get(one.run.digest, one.run) for one in files), key=lambda run: run.started)
    newest_run = tonight[-1]
    other = next((run for run in tonight if _house(run) != _house(newest_run)), None)
    if other is not None:
        raise UnusableInputError(
            f"{printable(other.name)} and {printable(newest_run.name)} are of different machines or toolchains;"
            " the gate takes the results of one night"
        )
    chosen = {run.digest for run in tonight}
    before = [
        run
        for run in runs
        if _house(run) == _house(newest_run) and run.digest not in chosen and run.started <= newest_run.started
    ]
    kept = _newest_nights(sorted([*before, *tonight], key=lambda run: run.started))
    found = _of_store(store, metric, [run for run in kept if run.id > 0], runs)
    for one in files:
        if one.run.digest not in known:
            for case, reading in one.readings.items():
                series = Series(case, metric.name, newest_run.machine, newest_run.toolchain)
                found.setdefault(series, []).append(reading)
    return nights.grouped(found, kept, metric)


def began(store: Store, group: Nights) -> list[str]:
    """What is to be said of series that are too young to be judged: since when, and what is new about them."""
    first = group.runs[0]
    if group.count > fence.FEWEST_NIGHTS:
        return []
    said = f"too young to be judged: {group.count} of {fence.FEWEST_NIGHTS + 1} nights"
    before = [run for run in store.runs() if run.started < first.started and _house(run) != _house(first)]
    if not before:
        return [said]
    same = [run for run in before if run.machine.id == first.machine.id]
    last = (same or before)[-1]
    changes = [
        *_changes(last.machine.facts, first.machine.facts),
        *_changes(last.toolchain.facts, first.toolchain.facts),
    ]
    return [f"{said}; a new series began on {first.started:%Y-%m-%d}: {'; '.join(changes)}"]


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    keys = [key for key in (*before, *(key for key in now if key not in before)) if before.get(key) != now.get(key)]
    return [f"{key} {now.get(key, 'unknown')}, was {before.get(key, 'unknown')}" for key in keys]
