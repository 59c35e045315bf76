# SPDX-License-Identifier: Apache-2.0
"""The passport of a machine: every ceiling that deep learning meets on it, from the rows of a run, and what they allow
published models. Rows in doubt are shown, and nothing is concluded from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from roofreport import units
from roofreport.io import case_name
from roofreport.io.contract import ModelStep, packaged
from roofreport.io.reliability import IN_DOUBT, doubt, half_width
from roofreport.io.result import HARDWARE, Case, Result, State, over_processes
from roofreport.stats import link, places
from roofreport.stats.levels import Level, find_levels, medians_within
from roofreport.stats.link import Link
from roofreport.stats.places import HANDOVER
from roofreport.stats.verdict import Estimate, find_split

TRAFFIC = ("read", "copy", "update", "write")
LATENCY = "latency"
ARITHMETIC, PRODUCT = "arithmetic", "matmul"
FLOORS = ("parallel_region", "operator_call", "first_touch")
LINKS = ("send_recv", "all_reduce")
# What each part of the passport is made of.
PARTS = {"memory": TRAFFIC, LATENCY: (LATENCY,), ARITHMETIC: (ARITHMETIC,), "products": (PRODUCT,)}
PARTS |= {"floors": FLOORS, "links": LINKS}
_ARRAYS = {"copy": 2}  # of `bytes` each, that a step touches; the others have one
_ROOF = "roof_"  # begins the facts of a context that are roofs of its run
_PLACES = ("bytes", "threads", "cache")  # axes that place a row within its curve
_USUAL = {"impl": "stream", "pages": "huge"}
# Axes of a bare loop: others vary its data or duration.
_LOOP = frozenset({"impl", case_name.DTYPE, "threads", "cache"})
_FEWEST_OF_CURVE = 4  # sizes that show a level
_BEYOND_CACHES = 1 << 28  # bytes
SATURATED = 0.95  # of the highest rate
_MOST_OTHERS = 5.0  # % of the processor's time beside roofs: more of it, and a run does not keep them
AGREE = 0.03  # processes of a quiet machine
_OUTLIERS = 0.05  # of the samples, at either end: a pause is no speed of memory
_LEAST_SHARE = 0.05  # of the time that a second speed lasts


@dataclass(frozen=True)
class Row:
    """A measured case with its axes, also those that its name omits."""

    case: Case
    axes: Mapping[str, str]
    threads: int

    @cached_property
    def unusual(self) -> dict[str, str]:
        """The axes that have other values than their family's default: names omit the others."""
        return case_name.axes(self.case.name)

    @property
    def family(self) -> str:
        return case_name.family(self.case.name)

    @property
    def doubt(self) -> str:
        return doubt(self.case)

    @property
    def size(self) -> float:
        """Bytes that a step touches."""
        return _number(self.axes.get("bytes")) * _ARRAYS.get(self.family, 1)

    @property
    def is_cold(self) -> bool:
        return self.axes.get("cache") == "cold"

    @property
    def variant(self) -> str:
        """What distinguishes it from the usual row of its family: "plain", "small"."""
        skipped = (*_PLACES, *(("impl",) if self.family in (LATENCY, *FLOORS) else ()))
        others = (pair for pair in self.unusual.items() if pair[0] not in skipped)
        return " ".join(value for axis, value in others if value != _USUAL.get(axis))

    @property
    def curve(self) -> str:
        return f"{self.family} {self.variant}".rstrip()

    @property
    def each(self) -> float:
        """Seconds of one of the accesses, calls or pages that a step takes one after another."""
        return self.case.counters.get("latency_ns", 1e9 * self.case.seconds) / 1e9

    @property
    def is_bare(self) -> bool:
        """Of a loop of arithmetic: on random data, without a pause or a run-up."""
        return self.unusual.keys() <= _LOOP

    @property
    def loop(self) -> str:
        """Of arithmetic: vector fp32."""
        return f"{self.axes.get('impl', '')} {self.axes.get(case_name.DTYPE, '')}".strip()

    @property
    def rate(self) -> float:
        """Bytes, or FLOPs, per second; of a latency and a floor, seconds of each."""
        if self.family in (LATENCY, *FLOORS):
            return self.each
        if self.family in LINKS:  # what ranks send is no traffic of memory
            return self.size / self.case.seconds
        return self.work / self.case.seconds

    @property
    def work(self) -> float:
        """FLOPs of arithmetic, bytes of traffic."""
        return self.case.flops if self.family in (ARITHMETIC, PRODUCT) else self.case.bytes

    @property
    def joules(self) -> float:
        """Of a step; 0 where nothing counts them."""
        return self.case.counters.get("energy_j", 0.0)


@dataclass(frozen=True)
class Ceiling:
    """A figure of the machine with half of its interval, as a share of it."""

    name: str
    value: float
    unit: str  # as the contract spells it
    half: float = math.nan
    source: str = ""  # the case, or the fact, that it is from
    doubt: str = ""
    handover: places.Handover = None  # of its row

    @property
    def trusted(self) -> float | None:
        return None if self.doubt else self.value


@dataclass(frozen=True)
class Spread:
    """A ceiling by process."""

    name: str
    values: Sequence[Ceiling]

    @property
    def lowest(self) -> float:
        return min(one.value for one in self.values)

    @property
    def highest(self) -> float:
        return max(one.value for one in self.values)

    @property
    def share(self) -> float:
        """How far they lie apart, of their median."""
        return (self.highest - self.lowest) / median(one.value for one in self.values)

    @property
    def doubtful(self) -> int:
        """The number of processes in which it is in doubt."""
        return sum(bool(one.doubt) for one in self.values)

    @property
    def places(self) -> list[list[Ceiling]]:
        """By where the threads ran, if they agree within a place; else none."""
        found = [[self.values[i] for i in group] for group in places.groups([one.handover for one in self.values])]
        agree = all(Spread(self.name, values).share <= AGREE for values in found)
        return found if len(found) > 1 and agree else []


@dataclass(frozen=True)
class MemoryLevels:
    """The curves of one number of threads, and the levels found from them."""

    threads: int
    curves: Mapping[str, Sequence[Row]]  # by size
    levels: Sequence[Level]


@dataclass(frozen=True)
class Scaling:
    """One kind of work by its number of threads."""

    name: str
    rows: Mapping[int, Row]

    @property
    def size(self) -> float:
        """Of traffic, in bytes; 0 of arithmetic."""
        return next((row.size for row in self.rows.values()), 0.0)

    @property
    def saturates(self) -> int | None:
        """The fewest threads with nearly the highest rate; None if one of them is in doubt."""
        if any(row.doubt for row in self.rows.values()):
            return None
        most = max(row.rate for row in self.rows.values())
        return min(threads for threads, row in self.rows.items() if row.rate >= SATURATED * most)


@dataclass(frozen=True)
class MeasuredLink:
    name: str
    rows: Sequence[Row]  # by size
    link: Link | None  # of the rows that are not in doubt; None: too few


@dataclass(frozen=True)
class Speeds:
    """The two speeds between which memory went, with the share of the time in the slower one."""

    name: str
    slow: float
    fast: float
    slow_share: float


@dataclass(frozen=True)
class Bound:
    """The least time of a step of a model, and the roof that takes most of it."""

    step: ModelStep
    seconds: float = math.nan
    roof: str = ""
    missing: str = ""  # why there is none

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.step.tokens / self.seconds


@dataclass(frozen=True)
class Passport:
    """Of the results of one machine, each of which is a process."""

    results: Sequence[Result]

    @property
    def context(self) -> Mapping[str, str]:
        return self.results[0].context

    @property
    def name(self) -> str:
        """Of the machine, which may not be named in its result."""
        device = self.context.get("device", "unknown device")
        return f"{device}, {units.counted(self.threads, 'thread')}" if self.threads else device

    @property
    def threads(self) -> int:
        """Of the whole run; 0: unknown."""
        return int(_number(self.context.get("threads")))

    @cached_property
    def cases(self) -> list[Case]:
        """Each once: repetitions within a process first, so that every process counts the same."""
        processes: dict[str, list[Case]] = {}
        for result in self.results:
            for name, case in result.merged().items():
                processes.setdefault(name, []).append(case)
        return [over_processes(cases) for cases in processes.values()]

    @cached_property
    def rows(self) -> list[Row]:
        contract = self.results[0].contract
        found = []
        for case in self.cases:
            if case.state is State.MEASURED and case.seconds > 0:
                axes = case_name.all_axes(case.name, contract) | dict(case.axes)
                # Loads that wait for each other are of one thread.
                whole = 1 if case_name.family(case.name) == LATENCY else self.threads
                found.append(Row(case, axes, int(_number(axes.get("threads"))) or whole))
        return [row for row in found if 0 < row.rate < math.inf]

    def of(self, *families: str) -> list[Row]:
        return [row for row in self.rows if row.family in families]

    @property
    def own_rows(self) -> list[Row]:
        """Those that a part is made of."""
        return self.of(*(family for families in PARTS.values() for family in families))

    @property
    def unmeasured(self) -> list[str]:
        """The parts without a row."""
        return [part for part, families in PARTS.items() if not self.of(*families)]

    @cached_property
    def memory(self) -> list[MemoryLevels]:
        """By the number of threads; those of few points are without levels."""
        groups: dict[int, dict[str, list[Row]]] = {}
        for row in self.of(*TRAFFIC, LATENCY):
            if not row.is_cold and row.size > 0:
                groups.setdefault(row.threads, {}).setdefault(row.curve, []).append(row)
        return [_with_levels(threads, groups[threads]) for threads in sorted(groups)]

    @cached_property
    def handovers(self) -> list[list[float]]:
        """What a cache line took from thread to thread, row by row, by place, nearest first."""
        known = [value for row in self.own_rows if (value := row.case.value(HANDOVER))]
        return [[known[index] for index in place] for place in places.groups(known)] if known else []

    @cached_property
    def scalings(self) -> list[Scaling]:
        """Arithmetic, and each kind of traffic in its largest size, cold if it was measured so."""
        groups: dict[str, dict[tuple[bool, float], dict[int, Row]]] = {}
        for row in self.of(*TRAFFIC, ARITHMETIC):
            if row.threads:
                groups.setdefault(row.curve, {}).setdefault((row.is_cold, row.size), {})[row.threads] = row
        found = []
        for name, sizes in groups.items():
            several = [place for place, rows in sizes.items() if len(rows) > 1]
            if several:
                rows = sizes[max(several)]
                found.append(Scaling(name, {threads: rows[threads] for threads in sorted(rows)}))
        return found

    @cached_property
    def links(self) -> list[MeasuredLink]:
        groups: dict[str, list[Row]] = {}
        for row in self.of(*LINKS):
            groups.setdefault(case_name.without_axis(row.case.name, "bytes"), []).append(row)
        found = []
        for name, rows in groups.items():
            rows.sort(key=lambda row: row.size)
            known = [row for row in rows if not row.doubt and row.size > 0]
            fitted = link.fit([row.size for row in known], [row.case.seconds for row in known])
            found.append(MeasuredLink(name, rows, fitted))
        return found

    @cached_property
    def energies(self) -> list[tuple[str, Row]]:
        """By name the rows with a reading of energy: bare loops and the best product of each type by all threads, and
        the largest size of each kind of traffic within each level of memory.
        """
        known = [row for row in self.rows if row.joules > 0 and row.work > 0]
        whole = [row for row in known if row.threads == self.threads]
        found = [(row.loop, row) for row in whole if row.family == ARITHMETIC and row.is_bare]
        products = _by_dtype([row for row in whole if row.family == PRODUCT])
        found += [(f"{PRODUCT} {dtype}", max(rows, key=lambda row: row.rate)) for dtype, rows in products.items()]
        traffic = sorted((row for row in known if row.curve in TRAFFIC), key=lambda row: row.size)
        for memory in self.memory:
            of_threads = [row for row in traffic if row.threads == memory.threads and not row.is_cold]
            for name, level in zip(self.level_names(memory), memory.levels, strict=True):
                largest = {row.curve: row for row in of_threads if level.smallest <= row.size <= level.largest}
                threads = units.counted(memory.threads, "thread")
                found += [(f"{curve}, {name}, {threads}", row) for curve, row in largest.items()]
        return found

    @cached_property
    def speeds(self) -> list[Speeds]:
        """Of each kind of traffic in sizes beyond caches, over all its rows: a journal has their samples."""
        groups: dict[str, list[Row]] = {}
        for row in self.of(*TRAFFIC):
            if row.size >= _BEYOND_CACHES:
                groups.setdefault(f"{row.curve}, {units.counted(row.threads, 'thread')}", []).append(row)
        return [found for name, rows in groups.items() if (found := _speeds(name, rows)) is not None]

    @cached_property
    def ceilings(self) -> dict[str, Ceiling]:
        """By name: memory by kind of traffic, latency, arithmetic and the best product by dtype, floors, links."""
        found = [self._memory_ceiling(kind) for kind in TRAFFIC]
        beyond = sorted(self.of(LATENCY), key=lambda row: (not row.variant, row.size))
        found += [_ceiling(LATENCY, "s", beyond[-1:])]
        loops, products = self._loops(self.threads), _by_dtype(self.of(PRODUCT))
        roofs = (key.removeprefix(_ROOF) for key in self.context if key.startswith(_ROOF))
        for dtype in dict.fromkeys([*loops, *products, *(name for name in roofs if name not in TRAFFIC)]):
            found += [self._or_roof(_ceiling(dtype, "FLOP/s", loops.get(dtype, [])), dtype, "FLOP/s")]
            found += [_ceiling(f"{PRODUCT} {dtype}", "FLOP/s", products.get(dtype, []))]
        found += [_floor(row) for row in self.of(*FLOORS)]
        found += [ceiling for one in self.links for ceiling in _link_ceilings(one)]
        return {ceiling.name: ceiling for ceiling in found if ceiling is not None}

    def _loops(self, threads: int) -> dict[str, list[Row]]:
        return _by_dtype([row for row in self.of(ARITHMETIC) if row.threads == threads and row.is_bare])

    def _memory_ceiling(self, kind: str) -> Ceiling | None:
        """Of the largest cold size that is not in doubt, or else of the largest size, with all threads."""
        rows = [row for row in self.of(kind) if row.threads == self.threads]
        beyond = [row for row in rows if row.is_cold] or [row for row in rows if row.size >= _BEYOND_CACHES]
        sizes = sorted({row.size for row in beyond}, reverse=True)
        found = [_ceiling(kind, "B/s", [row for row in beyond if row.doubt or row.size == size]) for size in sizes]
        best = next((one for one in found if one and not one.doubt), found[0] if found else None)
        return self._or_roof(best, kind, "B/s")

    def _or_roof(self, found: Ceiling | None, name: str, unit: str) -> Ceiling | None:
        """The run's roof in place of none, or of a lower one in doubt."""
        roof = self._roof(name, unit)
        return roof if found is None or (found.doubt and roof and roof.value > found.value) else found

    def _roof(self, name: str, unit: str) -> Ceiling | None:
        """The roof that a run measured for its cases."""
        value = _number(self.context.get(_ROOF + name))
        if value <= 0:
            return None
        beside = self.context.get("other_load", "")
        share, _, when = beside.partition(" %")
        doubt = f"others {beside}" if when and _number(share) > _MOST_OTHERS else ""
        return Ceiling(name, value, unit, source="the roof of its cases", doubt=doubt)

    @cached_property
    def spreads(self) -> list[Spread]:
        """Of the ceilings that its processes put more than AGREE apart."""
        each = [Passport([result]).ceilings for result in self.results]
        found = [Spread(name, [ceilings[name] for ceilings in each if name in ceilings]) for name in self.ceilings]
        return [one for one in found if len(one.values) > 1 and one.share > AGREE]

    @staticmethod
    def level_names(memory: MemoryLevels) -> list[str]:
        """ "level 1", …; one that reaches sizes beyond caches is memory."""
        names = [f"level {number}" for number, _ in enumerate(memory.levels, 1)]
        if any(level.largest >= _BEYOND_CACHES for level in memory.levels):
            names[-1] = "memory"
        return names

    def peaks(self, threads: int) -> list[Ceiling]:
        """The arithmetic of so many threads, by dtype."""
        if threads == self.threads:
            return [one for name, one in self.ceilings.items() if one.unit == "FLOP/s" and " " not in name]
        found = (_ceiling(dtype, "FLOP/s", rows) for dtype, rows in self._loops(threads).items())
        return [one for one in found if one is not None]

    @cached_property
    def bounds(self) -> list[Bound]:
        return [self._bound(step) for step in packaged().models]

    def _rate(self, roof: str) -> float | None:
        """The highest that is not in doubt: a library's product may beat the bare loop."""
        ceilings = (self.ceilings.get(name) for name in (roof, f"{PRODUCT} {roof}"))
        return max((one.value for one in ceilings if one and not one.doubt), default=None)

    def _bound(self, step: ModelStep) -> Bound:
        room = _number(self.context.get("memory_bytes"))
        if 0 < room < step.memory:
            return Bound(step, missing=f"needs {units.bytes_(step.memory)}")
        takes: dict[str, float] = {}
        for part in step.parts:
            times: list[dict[str, float]] = []
            for amounts in (part.flops, part.bytes):
                unknown = next((roof for roof in amounts if self._rate(roof) is None), None)
                if unknown is not None:
                    why = IN_DOUBT if unknown in self.ceilings else "unknown"
                    return Bound(step, missing=f"{unknown}: {why}")
                times.append({roof: amount / (self._rate(roof) or math.nan) for roof, amount in amounts.items()})
            for roof, seconds in max(times, key=lambda part: sum(part.values())).items():
                takes[roof] = takes.get(roof, 0.0) + seconds
        return Bound(step, sum(takes.values()), max(takes, key=lambda roof: takes[roof]))


def _number(text: str | None) -> float:
    """0 where there is none."""
    try:
        value = float(text or 0)
    except ValueError:
        return 0.0
    return value if 0 < value < 1e30 else 0.0


def _by_dtype(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.axes.get(case_name.DTYPE):
            found.setdefault(row.axes[case_name.DTYPE], []).append(row)
    return found


def _with_levels(threads: int, curves: Mapping[str, list[Row]]) -> MemoryLevels:
    for rows in curves.values():
        rows.sort(key=lambda row: row.size)
    known = {name: {row.size: row.rate for row in rows if not row.doubt} for name, rows in curves.items()}
    levels = [
        replace(level, values=medians_within(known, level.smallest, level.largest))
        for level in find_levels(_of_one_memory(known))
    ]
    return MemoryLevels(threads, curves, levels)


def _of_one_memory(curves: Mapping[str, Mapping[float, float]]) -> dict[str, Mapping[float, float]]:
    """The longest curve of each family: stores past the caches, and small pages, have levels of their own."""
    chosen: dict[str, str] = {}
    for name in sorted(curves, key=lambda name: (-len(curves[name]), name)):
        chosen.setdefault(name.split(" ")[0], name)
    return {name: curves[name] for name in chosen.values() if len(curves[name]) >= _FEWEST_OF_CURVE}


def _ceiling(name: str, unit: str, rows: Sequence[Row]) -> Ceiling | None:
    """The highest of those that are not in doubt, unless one in doubt is higher in all of its interval, or else of
    all.
    """
    best = max((row for row in rows if not row.doubt), key=lambda row: row.rate, default=None)
    doubtful = max((row for row in rows if row.doubt), key=_least_rate, default=None)
    if doubtful is not None and (best is None or _least_rate(doubtful) > best.rate):
        best = doubtful
    if best is None:
        return None
    case = best.case
    return Ceiling(name, best.rate, unit, half_width(case), case.name, best.doubt, case.value(HANDOVER))


def _least_rate(row: Row) -> float:
    """The lower end of its interval; half of the rate where there is none."""
    half = half_width(row.case)
    return row.rate * (1 - half if half < 1 else 0.5)


def _floor(row: Row) -> Ceiling:
    size = f" {units.size(row.size)}" if row.size else ""
    name = " ".join(
        [row.family.replace("_", " "), *(row.unusual[axis] for axis in ("what", "pages") if axis in row.unusual)]
    )
    case = row.case
    each = " each page of" if "pages" in row.unusual and "latency_ns" in case.counters else ""
    return Ceiling(name + each + size, row.each, "s", half_width(case), case.name, row.doubt, case.value(HANDOVER))


def _link_ceilings(one: MeasuredLink) -> Iterable[Ceiling]:
    if one.link is None:
        return
    for name, unit, estimate in (("start", "s", one.link.start), ("rate", "B/s", one.link.rate)):
        if 0 < estimate.value < math.inf:
            yield Ceiling(f"{one.name} {name}", estimate.value, unit, _half(estimate), one.name)


def _half(estimate: Estimate) -> float:
    return max(estimate.high - estimate.value, estimate.value - estimate.low) / estimate.value


def _speeds(name: str, rows: Sequence[Row]) -> Speeds | None:
    samples = [
        (seconds / case.bytes, seconds)
        for row in rows
        for case in row.case.repetitions or [row.case]
        for seconds in case.samples
        if case.bytes > 0 and seconds > 0
    ]
    ordered = sorted(per_byte for per_byte, _ in samples)
    cut = int(_OUTLIERS * len(ordered))
    split = find_split(ordered[cut : len(ordered) - cut])
    if split is None:
        return None
    slow = sum(seconds for per_byte, seconds in samples if per_byte >= min(split.slow))
    share = slow / sum(seconds for _, seconds in samples)
    if not _LEAST_SHARE <= share <= 1 - _LEAST_SHARE:
        return None
    return Speeds(name, 1 / median(split.slow), 1 / median(split.fast), share)


@dataclass(frozen=True)
class Ratio:
    """A ceiling of another machine over that of the first, with the interval of both together."""

    name: str
    ceilings: Sequence[Ceiling | None]  # of each machine

    def of(self, machine: int) -> Estimate | None:
        """None where one is missing, or in doubt; without an interval where one has none."""
        first, other = self.ceilings[0], self.ceilings[machine]
        if first is None or other is None or first.doubt or other.doubt:
            return None
        halves = [min(one.half, 0.99) if one.half >= 0 else math.nan for one in (first, other)]
        ratio = other.value / first.value
        return Estimate(ratio, ratio * (1 - halves[1]) / (1 + halves[0]), ratio * (1 + halves[1]) / (1 - halves[0]))


def ratios(machines: Sequence[Passport]) -> list[Ratio]:
    """Those of every ceiling that two machines or more have."""
    names = dict.fromkeys(name for one in machines for name in one.ceilings)
    found = [Ratio(name, [one.ceilings.get(name) for one in machines]) for name in names]
    return [one for one in found if sum(ceiling is not None for ceiling in one.ceilings) > 1]


def by_machine(results: Sequence[Result]) -> list[Passport]:
    """One for each machine, whose results are its processes."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        facts = (*HARDWARE, "threads", "memory_bytes")
        groups.setdefault((result.host, *(result.context.get(fact, "") for fact in facts)), []).append(result)
    return [Passport(group) for group in groups.values()]
