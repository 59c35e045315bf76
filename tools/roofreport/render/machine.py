# SPDX-License-Identifier: Apache-2.0
"""The passport of a machine as tables and charts, and machines side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from roofreport import units
from roofreport.compare.machine import (
    AGREE,
    ARITHMETIC,
    FLOORS,
    LATENCY,
    PRODUCT,
    TRAFFIC,
    Bound,
    Ceiling,
    MeasuredLink,
    MemoryLevels,
    Passport,
    Ratio,
    Row,
    Scaling,
    Spread,
    ratios,
)
from roofreport.io import case_name
from roofreport.io.reliability import IN_DOUBT
from roofreport.io.result import State
from roofreport.render import roofline
from roofreport.render.chart import Chart, Key, Line, Mark, around, color, shape
from roofreport.render.formats import MOST_COLUMNS, Cell, Column, Table, figure, note, table, words
from roofreport.stats import places
from roofreport.stats.levels import Level
from roofreport.stats.verdict import Estimate
from roofreport.text import shortened

MOST_DOUBTS = 20  # rows that are listed
_TITLE = 80
# Facts of a context that tell machines apart, or how quiet one was; the page lists all of them.
_FACTS = (
    *("device", "cpu_isa", "cpu_count", "threads", "memory_bytes", "cpu_caches", "numa_nodes", "kernel", "huge_pages"),
    *("cpu_governor", "turbo", "cpu_quota", "clock_source", "allocator", "torch_version", "onednn_version"),
    *("roofbench_version", "roofbench_revision", "started", "command_line"),
)
_QUIET = ("gpu_idle_watts", "other_load", "memory_speed", "waiting_threads", "roofs")


@dataclass(frozen=True)
class Part:
    """One question that a passport answers."""

    title: str
    tables: Sequence[Table]
    notes: Sequence[str] = ()
    charts: Sequence[Chart] = ()


def _spelled(ceiling: Ceiling) -> Cell:
    return figure(ceiling.value, lambda value: units.spelled(value, ceiling.unit))


def _half(half: float) -> Cell:
    return Cell() if math.isnan(half) else figure(half, units.half_width)


def _in_doubt(why: str) -> Cell:
    return note(f"{IN_DOUBT}: {why}" if why else "")


def _ceilings_table(ceilings: Iterable[Ceiling]) -> Table:
    columns: list[Column[Ceiling]] = [
        ("ceiling", lambda one: words(one.name)),
        ("value", _spelled),
        ("±", lambda one: _half(one.half)),
        ("of", lambda one: words(one.source)),
        ("note", lambda one: _in_doubt(one.doubt)),
    ]
    return table(ceilings, columns, ["±: half of the 95 % interval within a process"]).without_empty_columns()


def _rate_of(curve: str) -> Callable[[float], str]:
    return units.time if curve.startswith(LATENCY) else lambda value: units.quantity(value, "B/s")


def _levels_table(passport: Passport) -> Table:
    rows = [
        (memory, name, level)
        for memory in passport.memory
        for name, level in zip(passport.level_names(memory), memory.levels, strict=True)
    ]
    curves = list(dict.fromkeys(curve for _, _, level in rows for curve in level.values))[:MOST_COLUMNS]

    def value(curve: str) -> Callable[[tuple[MemoryLevels, str, Level]], Cell]:
        return lambda row: figure(row[2].values.get(curve), _rate_of(curve))

    columns: list[Column[tuple[MemoryLevels, str, Level]]] = [
        ("threads", lambda row: figure(row[0].threads or None, str)),
        ("level", lambda row: words(row[1])),
        ("from", lambda row: figure(row[2].smallest, units.size)),
        ("to", lambda row: figure(row[2].largest, units.size)),
        *((curve, value(curve)) for curve in curves),
    ]
    legend = "found from the curves: CPUID of a virtual machine names the caches of its host; sizes between are in two"
    return table(rows, columns, [legend])


def _unused(passport: Passport) -> list[str]:
    points = [row for memory in passport.memory for rows in memory.curves.values() for row in rows]
    doubtful = sum(bool(row.doubt) for row in points)
    of_all = f"{doubtful} of {units.counted(len(points), 'point')} {units.are(doubtful)}"
    return [f"{of_all} in doubt, and in no level"] if doubtful else []


def _row_label(row: Row) -> str:
    size, rate = units.size(row.size), _rate_of(row.curve)(row.rate)
    return f"{row.curve}, {size}: {rate}" + (f", {row.doubt}" if row.doubt else "")


def _curve_chart(passport: Passport, title: str, wanted: Callable[[str], bool]) -> Chart | None:
    """Rates by size, a line for each curve and number of threads, and the levels of the first curve of each."""
    marks: list[Mark] = []
    lines: list[Line] = []
    keys: list[Key] = []
    for place, memory in enumerate(passport.memory):
        curves = {name: rows for name, rows in memory.curves.items() if wanted(name) and len(rows) > 1}
        for name, rows in curves.items():
            style = color(len(keys)), shape(place)
            keys.append(Key(f"{shortened(name, 40)}, {units.counted(memory.threads, 'thread')}", *style))
            marks += [Mark(row.size, row.rate, _row_label(row), *style, doubtful=bool(row.doubt)) for row in rows]
            known = [(row.size, row.rate) for row in rows if not row.doubt]
            lines += [Line(tuple(known), color=style[0])] if len(known) > 1 else []
        first = next(iter(curves), None)
        for number, level in zip(passport.level_names(memory), memory.levels, strict=True):
            rate = level.values.get(first or "")
            if rate is not None and level.largest > level.smallest:
                label = f"{number}: {_rate_of(first or '')(rate)}"
                lines.append(Line(((level.smallest, rate), (level.largest, rate)), label, dashed=True))
    if not marks:
        return None
    axis = "time of an access" if title.startswith(LATENCY) else "bytes a second"
    return around(
        *(marks, lines, keys),
        title=f"{title} by size",
        x_label="bytes that a step touches",
        y_label=axis,
        x_tick=units.bytes_,
        y_tick=_rate_of(title),
    )


def _mark(ceiling: Ceiling) -> str:
    return f", {IN_DOUBT}" if ceiling.doubt else ""


def _roofline_chart(passport: Passport) -> Chart:
    """The products of the run under all ceilings."""
    read_and_copied = ((kind, passport.ceilings.get(kind)) for kind in TRAFFIC[:2])
    memory = {f"memory, {kind}{_mark(one)}": one.value for kind, one in read_and_copied if one}
    for levels in passport.memory:
        threads = units.counted(levels.threads, "thread")
        for name, level in zip(passport.level_names(levels), levels.levels, strict=True):
            if "read" in level.values and name != "memory":
                memory[f"{name} of {threads}, read"] = level.values["read"]
    compute = {
        name + _mark(one): one.value
        for name, one in passport.ceilings.items()
        if one.unit == "FLOP/s" and not name.startswith(PRODUCT)
    }
    drawn = roofline.chart(passport.results[0], roofline.Roofs("measured", memory, compute))
    return replace(drawn, marks=tuple(replace(mark, index=-1) for mark in drawn.marks))


def _scaling_table(scalings: Sequence[Scaling]) -> Table:
    counts = sorted({threads for one in scalings for threads in one.rows})[:MOST_COLUMNS]

    def rate(threads: int) -> Callable[[Scaling], Cell]:
        def cell(one: Scaling) -> Cell:
            row = one.rows.get(threads)
            unit = "FLOP/s" if one.name.startswith(ARITHMETIC) else "B/s"
            return figure(row.rate if row else None, lambda value: units.quantity(value, unit))

        return cell

    def saturates(one: Scaling) -> Cell:
        return Cell(IN_DOUBT) if one.saturates is None else figure(one.saturates, str)

    columns: list[Column[Scaling]] = [
        ("work", lambda one: words(one.name)),
        ("size", lambda one: figure(one.size or None, units.size)),
        *((units.counted(threads, "thread"), rate(threads)) for threads in counts),
        ("saturates at", saturates),
    ]
    return table(scalings, columns, ["saturates at: the fewest threads with 95 % of the highest rate"])


def _scaling_chart(scalings: Sequence[Scaling]) -> Chart | None:
    marks: list[Mark] = []
    lines: list[Line] = []
    keys: list[Key] = []
    for one in scalings:
        style = color(len(keys)), shape(len(keys))
        base = next(iter(one.rows.values())).rate
        points = [(threads, row.rate / base, row) for threads, row in one.rows.items()]
        for threads, times, row in points:
            label = f"{one.name}, {units.counted(threads, 'thread')}: {units.times(times)}"
            marks.append(Mark(threads, times, label, *style, doubtful=bool(row.doubt)))
        lines.append(Line(tuple((threads, times) for threads, times, _ in points), color=style[0]))
        keys.append(Key(shortened(one.name, 60), *style))
    if not marks:
        return None
    return around(
        *(marks, lines, keys),
        title="rate by threads",
        x_label="threads",
        y_label="times the rate of the fewest",
        x_tick=lambda value: f"{value:g}",
        y_tick=units.times,
    )


def _loops_table(passport: Passport) -> Table:
    """Loops of arithmetic, against the same on random data in a burst."""
    rows = passport.of(ARITHMETIC)
    bare = {(row.axes.get("impl"), row.axes.get(case_name.DTYPE), row.threads): row for row in rows if row.is_bare}

    def change(row: Row) -> Cell:
        base = bare.get((row.axes.get("impl"), row.axes.get(case_name.DTYPE), row.threads))
        if base is None or base is row:
            return Cell()
        return Cell(IN_DOUBT) if base.doubt or row.doubt else figure(row.rate / base.rate - 1, units.percent)

    columns: list[Column[Row]] = [
        ("loop", lambda row: words(_loop_name(row))),
        ("threads", lambda row: figure(row.threads or None, str)),
        ("rate", lambda row: figure(row.rate, lambda value: units.quantity(value, "FLOP/s"))),
        ("against random data in a burst", change),
        ("note", lambda row: _in_doubt(row.doubt)),
    ]
    return table(rows, columns).without_empty_columns()


def _energy_table(passport: Passport) -> Table:
    def picojoules(named: tuple[str, Row]) -> Cell:
        _, row = named
        unit = "FLOP" if row.family in (ARITHMETIC, PRODUCT) else "byte"
        return figure(1e12 * row.joules / row.work, lambda value: f"{units.digits(value)} pJ/{unit}")

    columns: list[Column[tuple[str, Row]]] = [
        ("work", lambda named: words(named[0])),
        ("power", lambda named: figure(named[1].joules / named[1].case.seconds, lambda watts: f"{watts:.3g} W")),
        ("energy", picojoules),
        ("note", lambda named: _in_doubt(named[1].doubt)),
    ]
    legend = "of the GPU, or of all packages of the processors with whatever else runs on them"
    return table(passport.energies, columns, [legend]).without_empty_columns()


def _loop_name(row: Row) -> str:
    varied = (f"{axis} {value}" for axis, value in row.unusual.items() if axis not in ("impl", "dtype", "threads"))
    return ", ".join([row.loop, *varied])


def _products_table(passport: Passport) -> Table:
    """The best product of a library against the bare loop of its type."""
    found = [
        (product, passport.ceilings.get(name.removeprefix(f"{PRODUCT} ")))
        for name, product in passport.ceilings.items()
        if name.startswith(f"{PRODUCT} ")
    ]

    def reached(pair: tuple[Ceiling, Ceiling | None]) -> Cell:
        product, loop = pair
        if loop is None:
            return Cell()
        known = product.trusted is not None and loop.trusted is not None
        return figure(product.value / loop.value, units.share) if known else Cell(IN_DOUBT)

    def remark(pair: tuple[Ceiling, Ceiling | None]) -> Cell:
        product, loop = pair
        doubts = [one.doubt for one in (product, loop) if one and one.doubt]
        if not doubts and loop and product.value > loop.value * (1 + product.half + loop.half):
            return note("above the bare loop, which met a slower machine")
        return _in_doubt(doubts[0] if doubts else "")

    columns: list[Column[tuple[Ceiling, Ceiling | None]]] = [
        ("product", lambda pair: words(pair[0].name)),
        ("fastest", lambda pair: _spelled(pair[0])),
        ("±", lambda pair: _half(pair[0].half)),
        ("bare loop", lambda pair: _spelled(pair[1]) if pair[1] else Cell()),
        ("reached", reached),
        ("case", lambda pair: words(pair[0].source)),
        ("note", remark),
    ]
    return table(found, columns).without_empty_columns()


def _interval(estimate: Estimate, shown: Callable[[float], str]) -> Cell:
    low, high = (shown(value) if math.isfinite(value) else "unbounded" for value in estimate[1:])
    return words(f"{low} … {high}")


def _links_table(links: Sequence[MeasuredLink]) -> Table:
    def rate(value: float) -> str:
        return units.quantity(value, "B/s")

    def why(one: MeasuredLink) -> str:
        doubtful = sum(bool(row.doubt) for row in one.rows)
        if one.link is None:
            sound = len(one.rows) - doubtful
            return f"no fit: {sound} of {units.counted(len(one.rows), 'size')} {units.are(sound)} not in doubt"
        return f"without {units.counted(doubtful, 'size')} in doubt" if doubtful else ""

    columns: list[Column[MeasuredLink]] = [
        ("link", lambda one: words(one.name)),
        ("start", lambda one: figure(one.link.start.value if one.link else None, units.time)),
        ("interval of start", lambda one: _interval(one.link.start, units.time) if one.link else Cell()),
        ("rate", lambda one: figure(one.link.rate.value if one.link else None, rate)),
        ("interval of rate", lambda one: _interval(one.link.rate, rate) if one.link else Cell()),
        ("note", lambda one: note(why(one))),
    ]
    legend = "seconds = start + bytes / rate, by least squares of relative errors, with 95 % intervals"
    return table(links, columns, [legend]).without_empty_columns()


def _balance_table(passport: Passport) -> Table:
    """FLOPs a byte at which arithmetic takes as long as reading."""
    reads: dict[int, dict[str, float | None]] = {}
    for memory in passport.memory:
        named = zip(passport.level_names(memory), memory.levels, strict=True)
        reads[memory.threads] = {name: level.values.get("read") for name, level in named}
    whole = passport.ceilings.get("read")
    if whole is not None:
        reads.setdefault(passport.threads, {})["memory"] = whole.trusted
    levels = dict.fromkeys(level for rates in reads.values() for level in rates)
    rows = [(threads, peak) for threads in reads if reads[threads] for peak in passport.peaks(threads)]

    def balance(level: str) -> Callable[[tuple[int, Ceiling]], Cell]:
        def cell(row: tuple[int, Ceiling]) -> Cell:
            threads, peak = row
            rate = reads[threads].get(level)
            is_doubtful = peak.doubt or (rate is None and level in reads[threads])
            return Cell(IN_DOUBT) if is_doubtful else figure(rate and peak.value / rate, units.digits)

        return cell

    columns: list[Column[tuple[int, Ceiling]]] = [
        ("threads", lambda row: figure(row[0] or None, str)),
        ("type", lambda row: words(row[1].name)),
        ("arithmetic", lambda row: _spelled(row[1])),
        *((f"{level}, FLOP/byte", balance(level)) for level in levels),
    ]
    return table(rows, columns, ["work with fewer FLOPs a byte is bound by reading"])


def _bound(bound: Bound | None) -> Cell:
    if bound is None:
        return Cell()
    if bound.missing:
        return words(bound.missing)
    is_step = bound.step.step == "training"
    text = units.time(bound.seconds) if is_step else f"{units.digits(bound.rate)} tokens/s"
    return Cell(f"{text} ({bound.roof})", bound.seconds if is_step else bound.rate)


def _bounds_table(bounds: Sequence[Bound]) -> Table:
    kinds = list(dict.fromkeys((one.step.step, one.step.format) for one in bounds))
    by_model: dict[str, dict[tuple[str, str], Bound]] = {}
    for one in bounds:
        by_model.setdefault(one.step.model, {})[one.step.step, one.step.format] = one

    def cell(kind: tuple[str, str]) -> Callable[[str], Cell]:
        return lambda model: _bound(by_model[model].get(kind))

    columns: list[Column[str]] = [
        ("model", lambda model: words(model)),
        *((" ".join(kind), cell(kind)) for kind in kinds),
    ]
    legend = (
        "no step is faster here, and the roof in brackets is why: a token after 512 others, a prompt of 512 tokens,"
        " a training step of 4 sequences of 128 tokens (forward, backward, AdamW)"
    )
    return table(by_model, columns, [legend])


def _spreads_table(passport: Passport) -> Table:
    processes = len(passport.results)

    def value(pick: Callable[[Spread], float]) -> Callable[[Spread], Cell]:
        return lambda one: figure(pick(one), lambda shown: units.spelled(shown, one.values[0].unit))

    def why(one: Spread) -> str:
        if one.doubtful:
            return f"in doubt in {one.doubtful} of {units.counted(len(one.values), 'process', 'es')}"
        if one.places:
            return ", ".join(
                f"{units.spelled(median(each.value for each in place), place[0].unit)}"
                f" with threads {places.text([each.handover for each in place])} apart"
                for place in one.places
            )
        return "each is steady by itself: other pages, other neighbors, or another clock"

    columns: list[Column[Spread]] = [
        ("processes differ", lambda one: words(one.name)),
        ("lowest", value(lambda one: one.lowest)),
        ("highest", value(lambda one: one.highest)),
        ("apart", lambda one: figure(one.share, units.share)),
        ("why", lambda one: note(why(one))),
    ]
    agree = len(passport.ceilings) - len(passport.spreads)
    others = f"the other {units.counted(agree, 'ceiling')} of {units.counted(processes, 'process', 'es')}"
    legend = f"{others} {'agrees' if agree == 1 else 'agree'} within {units.share(AGREE)}"
    return table(passport.spreads, columns, [legend])


def _quality(passport: Passport) -> Part:
    states = {state: sum(case.state is state for case in passport.cases) for state in State}
    counted = ", ".join(f"{count} {state.value}" for state, count in states.items() if count)
    notes = [f"{counted or 'no cases'}, of {units.counted(len(passport.results), 'process', 'es')}"]
    if passport.unmeasured:
        notes.append(f"not measured: {', '.join(passport.unmeasured)}")
    notes += [f"{fact}: {passport.context[fact]}" for fact in _QUIET if fact in passport.context]
    doubtful = [row for row in passport.own_rows if row.doubt]
    if passport.own_rows:
        of_all = f"{len(doubtful)} of {units.counted(len(passport.own_rows), 'row')} {units.are(len(doubtful))}"
        notes.append(f"{of_all} in doubt and {'supports' if len(doubtful) == 1 else 'support'} no conclusion")
    if len(doubtful) > MOST_DOUBTS:
        notes.append(f"the first {MOST_DOUBTS} are listed")
    columns: list[Column[Row]] = [
        ("row in doubt", lambda row: words(row.case.name)),
        ("why", lambda row: note(row.doubt)),
    ]
    tables = [table(doubtful[:MOST_DOUBTS], columns)] if doubtful else []
    tables += [_spreads_table(passport)] if passport.spreads else []
    if passport.handovers:
        taken = " and ".join(f"{places.text(one)} in {units.counted(len(one), 'row')}" for one in passport.handovers)
        notes.append(f"from one thread to the next, a cache line took {taken}")
    for one in passport.speeds:
        slow, fast = (units.quantity(rate, "B/s") for rate in (one.slow, one.fast))
        notes.append(
            f"two speeds: {one.name}: {slow} for {units.share(one.slow_share)} of the time,"
            f" {fast} for {units.share(1 - one.slow_share)}"
        )
    return Part("How far to trust it", tables, notes)


def title(passport: Passport) -> str:
    return f"Passport of {shortened(passport.name, _TITLE)}"


def _charts(*charts: Chart | None) -> list[Chart]:
    return [chart for chart in charts if chart is not None]


def pictures(passport: Passport) -> list[Chart]:
    """The two that say most."""
    return _charts(_roofline_chart(passport), _traffic_chart(passport))


def _traffic_chart(passport: Passport) -> Chart | None:
    return _curve_chart(passport, "bandwidth", lambda curve: not curve.startswith(LATENCY))


def parts(passport: Passport) -> list[Part]:
    """Those that a file has the rows of."""
    ceilings = passport.ceilings.values()
    floors = [one for one in ceilings if one.name.startswith(tuple(name.replace("_", " ") for name in FLOORS))]
    links = [one.name for one in passport.links]
    roofs = [one for one in ceilings if one not in floors and not one.name.startswith((PRODUCT, *links))]
    latency = _curve_chart(passport, LATENCY, lambda curve: curve.startswith(LATENCY))
    scaling = _charts(_scaling_chart(passport.scalings))
    found = [
        Part("Ceilings", [_ceilings_table(roofs)], charts=[_roofline_chart(passport)]),
        Part(
            "Levels of memory", [_levels_table(passport)], _unused(passport), _charts(_traffic_chart(passport), latency)
        ),
        Part("By threads", [_scaling_table(passport.scalings)], charts=scaling),
        Part("Arithmetic", [_loops_table(passport)]),
        Part("Energy", [_energy_table(passport)]),
        Part("The best library product against the bare loop", [_products_table(passport)]),
        Part("Floors: what a step cannot go below", [_ceilings_table(floors)]),
        Part("Links between ranks", [_links_table(passport.links)]),
        Part("Balance points", [_balance_table(passport)]),
        Part("What the machine allows published models", [_bounds_table(passport.bounds)]),
    ]
    filled = (replace(part, tables=[one for one in part.tables if one.rows]) for part in found)
    return [*(part for part in filled if part.tables or part.charts), _quality(passport)]


def facts(passport: Passport) -> list[tuple[str, str]]:
    return [(fact, passport.context[fact]) for fact in _FACTS if fact in passport.context]


def heading(passport: Passport) -> Part:
    return Part(title(passport), [], [f"{fact}: {value}" for fact, value in facts(passport)])


def side_by_side(machines: Sequence[Passport]) -> Table:
    """Every ceiling of each machine; from the second on over the first, with intervals."""

    def value(machine: int) -> Callable[[Ratio], Cell]:
        def cell(one: Ratio) -> Cell:
            ceiling = one.ceilings[machine]
            return Cell() if ceiling is None else _spelled(ceiling)

        return cell

    def over(machine: int) -> Callable[[Ratio], Cell]:
        def cell(one: Ratio) -> Cell:
            both = one.ceilings[0], one.ceilings[machine]
            if any(ceiling is None for ceiling in both):
                return Cell()
            estimate = one.of(machine)
            if estimate is None:
                return Cell(IN_DOUBT)
            if math.isnan(estimate.low):
                return Cell("no interval")
            low, high = (units.times(bound)[:-1] for bound in estimate[1:])
            return Cell(f"{units.times(estimate.value)} ({low} … {high})", estimate.value)

        return cell

    columns: list[Column[Ratio]] = [("ceiling", lambda one: words(one.name)), ("[1]", value(0))]
    for machine in range(1, len(machines)):
        columns += [(f"[{machine + 1}]", value(machine)), (f"[{machine + 1}] / [1]", over(machine))]
    legend = [f"[{place}] {one.name}: {one.results[0].name}" for place, one in enumerate(machines, 1)]
    legend.append("intervals: of both medians, within their processes; another process may differ by more")
    return table(ratios(machines), columns, legend)
