# SPDX-License-Identifier: Apache-2.0
"""The data of a site: a history as JSON, small enough for a page."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import re
import subprocess
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import chain, repeat
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

from roofreport.compare.rerun import shell_lines
from roofreport.errors import UnusableInputError
from roofreport.gate import series_state
from roofreport.gate.nightly_runs import counts
from roofreport.gate.verdicts import Finding
from roofreport.history.records import DISMISSED, PROFILE, Annotation, Reading, Run, Series
from roofreport.history.store import Store, open_store
from roofreport.io import case_name
from roofreport.io.contract import TIME, Better, Contract, Metric
from roofreport.io.result import Case, Result, State
from roofreport.render import roofline
from roofreport.render.chart import LEAST, MOST, SHAPES, Mark, outline
from roofreport.site.nights import Histories, Night, first_runs
from roofreport.text import printable, shortened

_LONGEST_WORD = 300
_SHAPES = ["", *SHAPES]  # the empty one is that of a swatch


def words(text: str, limit: int = _LONGEST_WORD) -> str:
    """As much of a text as a page shows."""
    return shortened(text, limit)


def number(value: float | None, digits: int = 6) -> float | None:
    """`value` with as many digits as a page shows; None if a chart cannot place it."""
    if value is None or not math.isfinite(value) or abs(value) > MOST:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def script_text(name: str, value: Any) -> str:
    """`name` is the key that a page requests; `value` consists of JSON types. Raises ValueError for other types."""
    dumped = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f"received({json.dumps(name)},{dumped});\n"


Key = TypeVar("Key", bound=Hashable)

_TOKEN = re.compile(r"[0-9A-Za-z]{8,64}")
_TOKEN_LENGTH = 16
_MOST_FACTS = 60


def token(text: str) -> str:
    """`text`, a hash, made safe for a file's name and a link, for any content of a foreign store."""
    known = text if _TOKEN.fullmatch(text) else sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return known[:_TOKEN_LENGTH]


def facts(known: Mapping[str, str]) -> list[list[str]]:
    spelled = {**known, **roofline.spelled_roofs(known)}
    return [[words(key, 60), words(value)] for key, value in list(spelled.items())[:_MOST_FACTS]]


def _places(things: Iterable[Key]) -> dict[Key, int]:
    """Numbers in the order of their first occurrence."""
    return {thing: place for place, thing in enumerate(dict.fromkeys(things))}


class Catalog:
    """`runs`: all of the history."""

    def __init__(self, histories: Histories, runs: Sequence[Run], contract: Contract) -> None:
        self._contract = contract
        self.series = [series for history in histories.values() for series in history]
        nights = [night for history in histories.values() for row in history.values() for night in row]
        # Many readings have the same counters in the same order.
        layouts = {tuple(reading.counters) for night in nights for reading in night.processes}
        self._counters = sorted({name for names in layouts for name in names})
        read = {reading.run.digest for night in nights for reading in night.processes}
        self._firsts = first_runs(runs)
        # The processes of each night that has a reading, by the digest of the first one.
        self.processes: dict[str, list[Run]] = {}
        for run in runs:
            if run.digest in read:
                self.processes.setdefault(self._firsts[run.digest].digest, []).append(run)
        firsts = {first.digest: first for first in self._firsts.values()}
        self.nights = sorted((firsts[digest] for digest in self.processes), key=lambda run: (run.started, run.id))
        self._nights = _places(run.digest for run in self.nights)
        self._cases = _places(series.case for series in self.series)
        self._machines = _places(series.machine for series in self.series)
        self._toolchains = _places(series.toolchain for series in self.series)

    @property
    def runs(self) -> list[Run]:
        """All processes with a reading."""
        return [run for night in self.processes.values() for run in night]

    def night(self, run: Run) -> int | None:
        """The place of a run's night; None for one without a reading."""
        return self._nights.get(self._firsts[run.digest].digest)

    def case(self, name: str) -> int:
        return self._cases[name]

    def data(self) -> dict[str, Any]:
        chosen = dict.fromkeys(series.metric for series in self.series)
        return {
            "shapes": [[shape, outline(shape)] for shape in _SHAPES],
            "machines": [[token(one.id), words(one.label), facts(one.facts)] for one in self._machines],
            "toolchains": [[token(one.id), words(one.label), facts(one.facts)] for one in self._toolchains],
            "metrics": self._metrics([*chosen, *self._counters]),
            "chosen": [words(name, 100) for name in chosen],
            "cases": [words(name) for name in self._cases],
            "families": [words(case_name.family(name), 100) for name in self._cases],
            "nights": [
                [token(run.digest), milliseconds(run.started), words(run.revision, 60), *self._whose(run)]
                for run in self.nights
            ],
            "series": [
                [token(one.key), self.case(one.case), words(one.metric, 100), *self._whose(one)] for one in self.series
            ],
        }

    def _metrics(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Units and directions, without counters that the contract does not know."""
        found = {}
        for name in names:
            metric = self._contract.metric(name)
            if metric is not None:
                better = "" if metric.better is Better.NEITHER else metric.better.value
                found[words(name, 100)] = {"unit": metric.unit, "better": better, "practical": metric.practical}
        return found

    def _whose(self, one: Series | Run) -> tuple[int, int]:
        return self._machines[one.machine], self._toolchains[one.toolchain]


def milliseconds(moment: datetime) -> int:
    """As JavaScript counts time."""
    return int(moment.timestamp() * 1000)


class Level(NamedTuple):
    """From one reading to the one before the next level: its median, and the fence around it."""

    first: int
    last: int
    middle: float
    low: float
    high: float


def usable(value: float | None) -> bool:
    """Whether the value has a logarithm and a place on a chart."""
    return value is not None and math.isfinite(value) and LEAST <= value <= MOST


_WIDEST = 50.0  # whose exponential is a number


def _level(places: Sequence[int], logs: Sequence[float], metric: Metric) -> Level:
    found = series_state.fence_around(logs, metric)
    if found is None:  # too young for a fence
        center, width = median(logs), series_state.least_width(metric, series_state.FAR_FLOOR)
    else:
        center, width = found.center, min(found.far, _WIDEST)
    low, middle, high = (math.exp(center + side * width) for side in (-1, 0, 1))
    return Level(places[0], places[-1], middle, low, high)


def levels_of(values: Sequence[float | None], nights: Sequence[Night], metric: Metric) -> list[Level]:
    """`values`: one for each night. A night without a usable one does not belong to a level."""
    groups: dict[int, dict[int, float]] = {}
    for place, (value, night) in enumerate(zip(values, nights, strict=True)):
        if night.level is not None and value is not None and usable(value):
            groups.setdefault(night.level, {})[place] = math.log(value)
    return [_level([*group], [*group.values()], metric) for group in groups.values()]


_BINS = 24
_DRAWN = 0.99  # of the samples
# Below it, this process is done before other processes have started.
_MANY_RUNS = 60
_MOST_PROCESSES = 8


class Sampling(NamedTuple):
    """The samples of one case in one run."""

    histogram: list[Any] | None = None
    stop: str = ""  # why it ended
    precisions: tuple[str, ...] = ()  # of its arithmetic


def histogram(samples: Sequence[float]) -> list[Any] | None:
    """[number of samples, fastest, slowest, count of each bin, number beyond the last one]; None for an empty list. The
    bins end at the 99th percentile: one sample of many would leave the others a bin.
    """
    found = sorted(one for one in samples if usable(one))
    if not found:
        return None
    kept = found[: math.ceil(_DRAWN * len(found))]
    low, high = kept[0], kept[-1]
    counts = [0] * _BINS
    width = (high - low) / _BINS
    for one in kept:
        counts[min(_BINS - 1, int((one - low) / width)) if width > 0 else 0] += 1
    return [len(found), number(low), number(found[-1]), counts, len(found) - len(kept), number(high)]


def _of_run(store: Store, run: Run) -> dict[str, Sampling]:
    details = store.case_details(run)
    return {
        case: Sampling(histogram(one.samples_s), words(one.stop, 40), one.precisions) for case, one in details.items()
    }


def _of_part(where: str, runs: Sequence[Run]) -> list[dict[str, Sampling]]:
    with open_store(where) as store:
        return [_of_run(store, run) for run in runs]


Samplings = Mapping[str, Mapping[str, Sampling]]  # by case, then by the digest of the run


def samplings(store: Store, where: str, runs: Sequence[Run]) -> Samplings:
    """`where`: what `store` was opened by."""
    processes = min(os.cpu_count() or 1, _MOST_PROCESSES)
    if len(runs) < _MANY_RUNS or processes == 1:
        details = [_of_run(store, run) for run in runs]
    else:
        step = _MANY_RUNS // 4
        parts = [runs[start : start + step] for start in range(0, len(runs), step)]
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            details = list(chain.from_iterable(pool.map(_of_part, repeat(where), parts)))
    found: dict[str, dict[str, Sampling]] = {}
    for run, cases in zip(runs, details, strict=True):
        for case, one in cases.items():
            found.setdefault(case, {})[run.digest] = one
    return found


_MOST_COUNTERS = 120


def case_token(series: Series) -> str:
    """The same for every metric of a case on one machine and toolchain."""
    return token(replace(series, metric=TIME.name).key)


def _column(values: Sequence[float | None]) -> Any:
    """One figure where every process has the same, such as counts of parameters."""
    rounded = [number(value, 4) for value in values]
    return rounded[0] if rounded and all(value == rounded[0] for value in rounded) else rounded


def _doubts(readings: Sequence[Reading]) -> dict[str, str]:
    """Why readings do not count, by their place."""
    return {str(place): words(one.doubt, 100) for place, one in enumerate(readings) if one.doubt}


def details_data(nights: Sequence[Night], sampled: Mapping[str, Sampling]) -> dict[str, Any]:
    """The processes of all nights, one after another. `sampled`: by the digest of the run."""
    begun = [(night.reading.run.started, one) for night in nights for one in night.processes]
    processes = [one for _, one in begun]
    rows = [dict(one.counters) for one in processes]
    names = list(dict.fromkeys(name for row in rows for name in row))[:_MOST_COUNTERS]
    samplings = [sampled.get(one.run.digest, Sampling()) for one in processes]
    return {
        "counters": {words(name, 100): _column([row.get(name) for row in rows]) for name in names},
        "seconds": [int((one.run.started - began).total_seconds()) for began, one in begun],  # into the night
        "states": "".join(_LETTERS[one.state] for one in processes),
        "doubts": _doubts(processes),
        "samples": [one.histogram for one in samplings],
        "stops": [one.stop for one in samplings],
    }


# The status of a series: a word, a mark, and whether it is for the worse.


class Group(Enum):
    WORSE = "worse"
    BETTER = "better"
    STEADY = "steady"


@dataclass(frozen=True)
class Status:
    """The mark distinguishes statuses for readers who cannot rely on color."""

    word: str
    mark: str
    group: Group
    rank: int  # the lower, the more urgent


STEADY = Status("steady", "·", Group.STEADY, 12)
# Its machine continues with another toolchain.
ENDED = Status("ended", "■", Group.STEADY, 13)
# Not even measured, and not missed.
SKIPPED = Status("skipped", "⊘", Group.STEADY, 14)
# The gate does not judge it yet.
YOUNG = Status("too young", "…", Group.STEADY, 11)
_KINDS: Mapping[str, Status] = {
    "failed": Status("failed", "✕", Group.WORSE, 0),
    "slower": Status("worse", "▲", Group.WORSE, 2),
    "drift": Status("drift, worse", "↗", Group.WORSE, 4),
    "vanished": Status("vanished", "○", Group.WORSE, 5),
    "ambiguous": Status("ambiguous", "≈", Group.STEADY, 8),
    "new": Status("new", "+", Group.STEADY, 10),
    "faster": Status("better", "▼", Group.BETTER, 6),
}
_DRIFT_BETTER = Status("drift, better", "↘", Group.BETTER, 7)
# Beyond its fence, and not in a second run.
_DISMISSED = Status("dismissed", "↺", Group.STEADY, 9)


def status_of(finding: Finding, metric: Metric) -> Status:
    if finding.second_run == DISMISSED:
        return _DISMISSED
    if finding.kind == "drift" and not metric.worse(finding.effect):
        return _DRIFT_BETTER
    found = _KINDS.get(finding.kind, STEADY)
    # Before those that no second run has confirmed.
    return replace(found, word=f"{found.word}, confirmed", rank=found.rank - 1) if finding.second_run else found


def worst_status(findings: Sequence[Finding], metric: Metric, quiet: Status = STEADY) -> tuple[Status, Finding | None]:
    """The worst status of one series, which may have several findings; `quiet` without a finding."""
    ranked = [(status_of(finding, metric), finding) for finding in findings]
    return min(ranked, key=lambda one: one[0].rank) if ranked else (quiet, None)


def _too_young(nights: Sequence[Night]) -> str:
    return series_state.too_young(sum(night.paced is not None for night in nights))


def unjudged(nights: Sequence[Night]) -> tuple[Status, str]:
    """The status of a series on which the gate has no finding, and why it is not judged."""
    if nights and nights[-1].reading.state is State.SKIPPED:
        return SKIPPED, nights[-1].reading.reason
    young = _too_young(nights)
    return (YOUNG, young) if young else (STEADY, "")


# Counters that compare a time with a datasheet; the name of the device comes first.
_SHARE_OF_SHEET = re.compile(r"(\w+)_(?:flop|mem)_util")
_LETTERS = {State.MEASURED: "m", State.SKIPPED: "s", State.FAILED: "f", State.INTERRUPTED: "i"}


def _sheet(counters: Mapping[str, float]) -> float | None:
    """The larger share of the reference's datasheet: of its arithmetic or of its memory."""
    return max((value for key, value in counters.items() if _SHARE_OF_SHEET.fullmatch(key)), default=None)


def _bounds(readings: Sequence[Reading]) -> dict[str, list[float | None]]:
    """The times that the machine's roof and the reference's datasheet allow for the work."""
    shares = {
        "roof": [one.counters.get("roof") for one in readings],
        "sheet": [_sheet(one.counters) for one in readings],
    }
    found = {}
    for name, parts in shares.items():
        row = [
            number(one.value * part) if one.value and part else None for one, part in zip(readings, parts, strict=True)
        ]
        if any(value is not None for value in row):
            found[name] = row
    return found


def _command(series: Series, readings: Sequence[Reading]) -> list[str]:
    """Lines for a shell; none for a name that must not reach one, and where the run does not say how it was started."""
    return shell_lines(readings[-1].run, series.case) if words(series.case) == series.case and readings else []


def _said(annotations: Sequence[Annotation], series: Series) -> list[list[Any]]:
    return [
        [milliseconds(one.since), words(one.kind, 40), words(one.why, 1000)]
        for one in annotations
        if (not one.pattern or one.pattern == series.case or fnmatchcase(series.case, one.pattern))
        and one.machine_id in ("", series.machine.id)
    ]


_MOST_PROFILES = 5
_MOST_LINES = 400


def _profiles(annotations: Sequence[Annotation], series: Series) -> list[list[Any]]:
    """The newest first, one for each night."""
    own = {one.since: one.why for one in annotations if one.kind == PROFILE and one.pattern == series.key}
    return [
        [milliseconds(night), "\n".join(words(line) for line in own[night].split("\n")[:_MOST_LINES])]
        for night in sorted(own, reverse=True)[:_MOST_PROFILES]
    ]


def _said_by_gate(
    findings: Sequence[Finding], nights: Sequence[Night], metric: Metric, catalog: Catalog
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for one in findings:
        what = status_of(one, metric)
        since = one.since or one.run
        rows.append(
            {"word": what.word, "mark": what.mark, "group": what.group.value, "text": words(one.text, 600)}
            | {"since": milliseconds(since.started), "night": catalog.night(since)}
        )
    what, why = unjudged(nights)
    if what is YOUNG or (what is SKIPPED and not rows):  # a finding says why it is skipped
        text = words(why, 600)
        rows.append({"word": what.word, "mark": what.mark, "group": what.group.value, "text": text, "since": None})
    return rows


def series_data(
    series: Series,
    nights: Sequence[Night],
    findings: Sequence[Finding],
    annotations: Sequence[Annotation],
    metric: Metric,
    catalog: Catalog,
) -> dict[str, Any]:
    readings = [night.reading for night in nights]
    return {
        "nights": [catalog.night(one.run) for one in readings],
        "values": [number(one.value) for one in readings],
        "sizes": [len(night.processes) for night in nights],
        "counts": "".join("1" if counts(one, metric) else "0" for night in nights for one in night.processes),
        "processes": [number(one.value) for night in nights for one in night.processes],
        "states": "".join(_LETTERS[one.state] for one in readings),
        "reasons": {str(i): words(one.reason) for i, one in enumerate(readings) if one.reason},
        "doubts": _doubts(readings),
        "levels": [
            [*one[:2], *map(number, one[2:])]
            for one in levels_of([None if one.doubt else one.value for one in readings], nights, metric)
        ],
        "findings": _said_by_gate(findings, nights, metric, catalog),
        "annotations": _said(annotations, series),
        "profiles": _profiles(annotations, series),
        "bounds": _bounds(readings) if series.metric == TIME.name else {},
        "reference": words(readings[-1].run.context.get("reference", ""), 60) if readings else "",
        "command": _command(series, readings),
        "details": case_token(series),
    }


class Entry(NamedTuple):
    """One series in the data of a night."""

    series: Series
    night: Night
    width: float | None  # of the gate's fence around the figure, in logarithms; None: too young


# By the digest of the night's first run, then by the metric.
Entries = Mapping[str, Mapping[str, Sequence[Entry]]]


def entries_of(histories: Histories, contract: Contract) -> Entries:
    found: dict[str, dict[str, list[Entry]]] = {}
    for name, history in histories.items():
        metric = contract.metric(name) or contract.time
        for series, nights in history.items():
            widths = _widths(nights, metric)
            for night, width in zip(nights, widths, strict=True):
                found.setdefault(night.reading.run.digest, {}).setdefault(name, []).append(Entry(series, night, width))
    return found


def _widths(nights: Sequence[Night], metric: Metric) -> list[float | None]:
    """Those of the fences around the levels that the nights are at, at one pace of the machine."""
    widths: list[float | None] = [None] * len(nights)
    if not _too_young(nights):
        for level in levels_of([night.paced for night in nights], nights, metric):
            for place in range(level.first, level.last + 1):
                widths[place] = math.log(level.high / level.middle)
    return widths


def _case(series: Series, night: Night, sampled: Mapping[str, Sampling]) -> Case:
    """`sampled`: by the digest of the run."""
    reading, processes = night.reading, (sampled.get(one.run.digest, Sampling()) for one in night.processes)
    seconds = reading.value or 0.0
    return Case(
        name=series.case,
        repetition=0,
        state=reading.state,
        seconds=seconds,
        flops=reading.counters.get("FLOP/s", 0.0) * seconds,
        bytes=reading.counters.get("bytes/s", 0.0) * seconds,
        precisions=next((one.precisions for one in processes if one.precisions), ()),
        counters=dict(reading.counters),
    )


def _mark(mark: Mark, case: Case, doubt: str, catalog: Catalog, colors: Sequence[str]) -> list[Any]:
    """The case, FLOP/byte, FLOP/s, the share of its roof, the style of the mark, and why it is in doubt."""
    share = number(case.counters.get("roof"), 3)
    looks = colors.index(mark.color), _SHAPES.index(mark.shape)
    return [catalog.case(case.name), number(mark.x, 4), number(mark.y, 4), share, *looks, words(doubt, 100)]


def _roofline(run: Run, timed: Sequence[Entry], catalog: Catalog, sampled: Samplings) -> dict[str, Any]:
    context = {"device": run.machine.label, **run.context}
    cases = tuple(_case(one.series, one.night, sampled.get(one.series.case, {})) for one in timed)
    doubts = {one.series.case: one.night.reading.doubt for one in timed}
    chart = roofline.chart(Result(Path(words(run.name)), context, cases), why=lambda case: doubts[case.name])
    colors = sorted({key.color for key in chart.keys} | {mark.color for mark in chart.marks})
    return {
        "colors": colors,
        "x": [number(one, 4) for one in (chart.x.low, chart.x.high)],
        "y": [number(one, 4) for one in (chart.y.low, chart.y.high)],
        "lines": [
            [line.label, line.dashed, line.below, *(number(one, 4) for point in line.points for one in point)]
            for line in chart.lines
        ],
        "marks": [
            _mark(mark, case, doubts[case.name], catalog, colors)
            for mark in chart.marks
            for case in [cases[mark.index]]
        ],
        "keys": [[key.label, colors.index(key.color), _SHAPES.index(key.shape), key.doubtful] for key in chart.keys],
    }


def night_data(
    first: Run, entries: Mapping[str, Sequence[Entry]], catalog: Catalog, sampled: Samplings
) -> dict[str, Any]:
    """`first`: the first run of the night, whose context stands for all."""
    return {
        "files": [words(run.name) for run in catalog.processes[first.digest]],
        "facts": facts(first.context),
        "values": {
            words(metric, 100): [
                [
                    catalog.case(one.series.case),
                    *map(number, (one.night.reading.value, one.night.paced, one.width)),
                    words(one.night.reading.doubt, 100),
                ]
                for one in rows
            ]
            for metric, rows in entries.items()
        },
        "roofline": _roofline(first, entries.get(TIME.name, []), catalog, sampled),
    }


_MOST = 5000
_SECONDS = 60
# A setting of the user prints more than the format asks for.
_LOG = ("log", "--no-show-signature", "--first-parent", f"--max-count={_MOST}", "--format=%H%x00%s", "-z")


def commit_log(repository: Path) -> list[list[str]]:
    """[revision, first line of the message], newest first, along the first parents. Raises UnusableInputError."""
    command = ["git", "-C", str(repository), *_LOG]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnusableInputError(f"--repository={repository}: {error}") from error
    if done.returncode:
        raise UnusableInputError(f"--repository={repository}: git finds no commits in it")
    parts = done.stdout.decode("utf-8", "replace").rstrip("\0").split("\0")
    return [[revision, printable(subject, 120)] for revision, subject in zip(parts[::2], parts[1::2], strict=False)]
