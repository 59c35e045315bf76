# SPDX-License-Identifier: Apache-2.0
"""The cases of a run under the roofs of the machine and of the datasheets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from roofreport import units
from roofreport.io import case_name
from roofreport.io.reliability import IN_DOUBT, doubt
from roofreport.io.result import Case, Result, State
from roofreport.render.chart import LEAST, MOST, SHAPES, Chart, Key, Line, Mark, Range, color, shape, spanning
from roofreport.text import shortened

MEMORY_ROOFS = ("read", "copy", "update", "write")
# Copies bind norms and element-wise work, reads bind products of a matrix with a vector. The others are in the facts.
_DRAWN = ("read", "copy")


# The counter that each share of a datasheet's peak refers to.
_MEMORY_SHARE = "mem_util"
_SHARES = {_MEMORY_SHARE: "bytes/s", "flop_util": "FLOP/s"}
# In one picture.
_MOST_SHEETS = 4
_MOST_PEAKS = 16
_GRAY = "#7f7f7f"


@dataclass(frozen=True)
class Roofs:
    """One set of peaks: bytes/s by kind of traffic, FLOP/s by precision."""

    title: str
    memory: dict[str, float]
    compute: dict[str, float]


def _numbers(context: Mapping[str, str]) -> dict[str, float]:
    found = {}
    for key, text in context.items():
        if key.startswith("roof_"):
            try:
                value = float(text)
            except ValueError:
                continue
            if LEAST <= value <= MOST:
                found[key.removeprefix("roof_")] = value
    return found


def spelled_roofs(context: Mapping[str, str]) -> dict[str, str]:
    """The facts of a context that are roofs, in their units."""
    return {
        f"roof_{name}": units.quantity(value, "B/s" if name in MEMORY_ROOFS else "FLOP/s")
        for name, value in _numbers(context).items()
    }


def measured_roofs(result: Result) -> Roofs:
    rates = _numbers(result.context)
    memory = {name: rates.pop(name) for name in MEMORY_ROOFS if name in rates}
    return Roofs("measured", memory, _highest(rates))


def _by_prefix(result: Result, cases: Sequence[Case]) -> dict[str, Roofs]:
    """A datasheet's peaks from the shares of them that the cases reached: no second table of devices to maintain."""
    found: dict[str, Roofs] = {}
    measured = tuple(measured_roofs(result).compute)
    for case in cases:
        # Rows of JSON do not say. A run measures the roofs that its cases need: one alone is that of every case.
        precisions = case.precisions or measured
        for key, share in case.counters.items():
            end = next((end for end in _SHARES if key.endswith(end)), None)
            rate = case.counters.get(_SHARES[end], 0.0) if end else 0.0
            if end is None or not (share > 0 and rate > 0 and LEAST <= rate / share <= MOST):
                continue
            roofs = found.setdefault(key.removesuffix(end), Roofs("", {}, {}))
            if end == _MEMORY_SHARE:
                roofs.memory["memory"] = rate / share
            elif len(precisions) == 1:  # arithmetic in several has a joint peak, which is no roof
                roofs.compute[precisions[0]] = max(roofs.compute.get(precisions[0], 0.0), rate / share)
    return found


def datasheet_roofs(result: Result, cases: Sequence[Case]) -> list[Roofs]:
    """The datasheet roofs of this device, where it has one, and of the reference."""
    found = []
    for prefix, roofs in sorted(_by_prefix(result, cases).items()):
        title = shortened(result.context.get("reference", prefix), 40) if prefix else "datasheet of this device"
        if roofs.memory or roofs.compute:
            found.append(replace(roofs, title=title, compute=_highest(roofs.compute)))
    return found[:_MOST_SHEETS]


def _highest(compute: dict[str, float]) -> dict[str, float]:
    """As many peaks as a picture has room for, in their order."""
    kept = set(sorted(compute, key=lambda precision: -compute[precision])[:_MOST_PEAKS])
    return {precision: rate for precision, rate in compute.items() if precision in kept}


def family_colors(cases: Sequence[Case]) -> dict[str, str]:
    families = dict.fromkeys(case_name.family(case.name) for case in cases)
    return {family: color(i) for i, family in enumerate(families)}


def dtype_shapes(dtypes: Iterable[str]) -> dict[str, str]:
    """Each has its own, as long as there are others left."""
    return {dtype: shape(min(i, len(SHAPES) - 1)) for i, dtype in enumerate(dict.fromkeys(dtypes))}


def _dtype_keys(shapes: Mapping[str, str]) -> list[Key]:
    named: dict[str, list[str]] = {}
    for dtype, own in shapes.items():
        named.setdefault(own, []).append(shortened(dtype, 40) or "no type")
    return [Key("other types" if len(dtypes) > 1 else dtypes[0], _GRAY, own) for own, dtypes in named.items()]


def is_plotted(case: Case) -> bool:
    """Work without arithmetic, or without traffic, cannot be drawn on these axes."""
    if case.state is not State.MEASURED or not (case.flops > 0 and case.bytes > 0 and case.seconds > 0):
        return False
    return all(LEAST <= ratio <= MOST for ratio in (case.flops / case.bytes, case.flops / case.seconds))


def _lines(roofs: Roofs, x: Range, dashed: bool) -> list[Line]:
    highest = [rate * x.high for rate in roofs.memory.values()]
    top = max(roofs.compute.values() or highest, default=0.0)
    drawn = [name for name in _DRAWN if name in roofs.memory] or list(roofs.memory)
    lines = []
    digits = 4 if dashed else 3  # datasheets have 1.555 TB/s
    for name in drawn:
        rate = roofs.memory[name]
        end = min(x.high, top / rate)
        if end <= x.low:
            continue
        label = f"{roofs.title}: {name} {units.quantity(rate, 'B/s', digits)}"
        below = len(drawn) > 1 and rate == min(roofs.memory[one] for one in drawn)
        lines.append(Line(((x.low, rate * x.low), (end, rate * end)), label, dashed, below=below))
    fastest = max((roofs.memory[name] for name in drawn), default=0.0)
    equal: dict[float, list[str]] = {}
    for precision, rate in roofs.compute.items():
        equal.setdefault(float(f"{rate:.{digits}g}"), []).append(precision)
    for rate, precisions in sorted(equal.items(), reverse=True):
        start = max(x.low, rate / fastest) if fastest else x.low
        if start >= x.high:
            continue
        label = f"{roofs.title}: {shortened(', '.join(precisions), 40)} {units.quantity(rate, 'FLOP/s', digits)}"
        lines.append(Line(((start, rate), (x.high, rate)), label, dashed))
    return lines


def chart(result: Result, measured: Roofs | None = None, why: Callable[[Case], str] = doubt) -> Chart:
    """Marks carry the index of their case in result.merged(). `measured`: in place of all the roofs of the run. `why`:
    that case is in doubt.
    """
    cases = list(result.merged().values())
    dtypes = {case.name: case_name.dtype(case.name, result.contract) for case in cases if is_plotted(case)}
    colors, shapes = family_colors(cases), dtype_shapes(dtypes.values())
    marks = []
    for index, case in enumerate(cases):
        if not is_plotted(case):
            continue
        intensity, rate = case.flops / case.bytes, case.flops / case.seconds
        roof = case.counters.get("roof")
        label = f"{case.name}\n{units.quantity(rate, 'FLOP/s')}, {units.digits(intensity)} FLOP/byte"
        if roof is not None:
            label += f", {100 * roof:.0f} % of its roof"
        doubtful = why(case)
        label += f"\n{doubtful}" if doubtful else ""
        looks = colors[case_name.family(case.name)], shapes[dtypes[case.name]]
        marks.append(Mark(intensity, rate, label, *looks, index, bool(doubtful)))
    sheets = datasheet_roofs(result, cases) if measured is None else []
    measured = measured_roofs(result) if measured is None else measured
    ridges = [
        rate / bandwidth
        for roofs in (measured, *sheets)
        for rate in roofs.compute.values()
        for bandwidth in roofs.memory.values()
    ]
    x = spanning([*(mark.x for mark in marks), *(r for r in ridges if r < 1e5), 0.25], 3.0)
    peaks = [rate for roofs in (measured, *sheets) for rate in roofs.compute.values()]
    peaks += [rate * x.low * 2 for rate in measured.memory.values()] if not marks else []
    y = spanning([*(mark.y for mark in marks), *peaks], 2.0)
    lines = [line for roofs in sheets for line in _lines(roofs, x, dashed=True)] + _lines(measured, x, dashed=False)
    drawn = {case_name.family(case.name) for case in cases if is_plotted(case)}
    keys = [Key(shortened(family, 40), color, family=family) for family, color in colors.items() if family in drawn]
    keys += _dtype_keys(shapes)
    if any(mark.doubtful for mark in marks):
        keys.append(Key(f"pale with a rim: {IN_DOUBT}", _GRAY, doubtful=True))
    return Chart(
        title=f"Roofline of {shortened(result.context.get('device', result.host), 60)}",
        x_label="arithmetic intensity (FLOP/byte)",
        y_label="arithmetic rate (FLOP/s)",
        x=x,
        y=y,
        lines=tuple(lines),
        marks=tuple(marks),
        keys=tuple(keys),
        x_tick=lambda value: f"{value:g}",
        y_tick=lambda value: units.quantity(value, ""),
    )
