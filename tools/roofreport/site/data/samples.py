# SPDX-License-Identifier: Apache-2.0
"""How the samples of every case lay in every run. Runs are read side by side: each is a file of megabytes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from roofreport.history.records import Run, Series
from roofreport.history.store import Store, open_store
from roofreport.site.data import levels
from roofreport.site.data.script import number, words

_BINS = 24
# Below it, other processes start no sooner than this one is done.
_MANY_RUNS = 60
_MOST_PROCESSES = 8


class Told(NamedTuple):
    """By one run of one case."""

    shape: list[Any] | None  # as histogram() gives it
    stop: str  # why sampling ended


NOTHING = Told(None, "")


def histogram(samples: Sequence[float]) -> list[Any] | None:
    """[number of samples, fastest, slowest, count of each bin]; None of no samples."""
    kept = [one for one in samples if levels.usable(one)]
    if not kept:
        return None
    low, high = min(kept), max(kept)
    counts = [0] * _BINS
    width = (high - low) / _BINS
    for one in kept:
        counts[min(_BINS - 1, int((one - low) / width)) if width > 0 else 0] += 1
    return [len(kept), number(low), number(high), counts]


def _of_run(store: Store, run: Run) -> dict[str, Told]:
    details = store.case_details(run)
    return {case: Told(histogram(one.samples_s), words(one.stop, 40)) for case, one in details.items()}


def _of_part(where: str, runs: Sequence[Run]) -> list[dict[str, Told]]:
    with open_store(where) as store:
        return [_of_run(store, run) for run in runs]


def _every(store: Store, where: str, runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Told]]]:
    processes = min(os.cpu_count() or 1, _MOST_PROCESSES)
    if len(runs) < _MANY_RUNS or processes == 1:
        yield from ((run, _of_run(store, run)) for run in runs)
        return
    parts = [runs[start : start + _MANY_RUNS // 4] for start in range(0, len(runs), _MANY_RUNS // 4)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for part, found in zip(parts, pool.map(_of_part, [where] * len(parts), parts), strict=True):
            yield from zip(part, found, strict=True)


class Samples:
    """By case and run. `where`: what `store` was opened by."""

    def __init__(self, store: Store, where: str, runs: Sequence[Run]) -> None:
        self._found: dict[str, dict[str, Told]] = {}
        for run, told in _every(store, where, runs):
            for case, one in told.items():
                self._found.setdefault(case, {})[run.digest] = one

    def of(self, series: Series) -> Mapping[str, Told]:
        """By the digest of the run."""
        return self._found.get(series.case, {})
