# SPDX-License-Identifier: Apache-2.0
"""Profiles as tables (agreement with the stopwatch, kernels, products, attention, two profiles compared) and flame
graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roofreport import units
from roofreport.io.profile import Kernel, Part, Profile
from roofreport.render.formats import Cell, Table, figure, words

_OF_KERNELS = "share: of the time of all kernels there, which is less than the step's"
VISIBLE = 0.01  # the share of the kernels' time, not of the step's, from which a kernel is listed
AGREED = 0.05  # as far as the profiler's time may be from the stopwatch's
JUDGED = 0.1  # seconds from which it may: below, the profiler's own time counts
_STAGES = ("scores", "softmax", "weighted sum")
_NAME = 100


def _text(value: str) -> Cell:
    return words(value, _NAME)


def _time(seconds: float) -> Cell:
    return Cell(units.time(seconds) if seconds > 0 else "-", seconds)


def _share(ratio: float) -> Cell:
    return figure(ratio, units.tenths)


def _change(new: float, old: float) -> Cell:
    return figure(new / old - 1, units.percent) if old > 0 and new > 0 else Cell("-")


@dataclass(frozen=True)
class Sum:
    """Kernels of one name in some phases."""

    name: str
    work: str
    calls: float
    total: float


def by_name(kernels: Iterable[Kernel]) -> list[Sum]:
    """The one with most time first."""
    sums: dict[str, Sum] = {}
    for kernel in kernels:
        before = sums.get(kernel.name, Sum(kernel.name, kernel.work, 0, 0))
        sums[kernel.name] = Sum(kernel.name, kernel.work, before.calls + kernel.calls, before.total + kernel.total)
    return sorted(sums.values(), key=lambda each: -each.total)


def _within(profile: Profile, phases: Sequence[str]) -> list[Kernel]:
    return [kernel for kernel in profile.kernels if kernel.phase in phases]


def _stretches(profile: Profile) -> list[tuple[str, list[Kernel]]]:
    """The phases one by one, forward and backward together, and the whole step."""
    names = [part.path for part in profile.parts if part.depth == 1]
    found = [(name, _within(profile, [name])) for name in names]
    if {"forward", "backward"} <= set(names):
        found.append(("forward + backward", _within(profile, ["forward", "backward"])))
    if len(names) != 1:
        found.append(("step", list(profile.kernels)))
    return [(name, kernels) for name, kernels in found if kernels]


def _agreed(profiled: float, recorded: float) -> str:
    if recorded < JUDGED:
        return "-"
    return "yes" if abs(profiled / recorded - 1) <= AGREED else "no"


def agreement(profiles: Sequence[Profile]) -> Table:
    """The profiler's time against the stopwatch's of the same steps and of the samples, of the step and its phases."""
    rows = []
    for profile in profiles:
        parts = {part.path: part for part in profile.parts if part.depth == 1}
        stretches = [("step", profile.profiled, profile.stopwatch)]
        stretches += [(name, parts[name].total, clocked) for name, clocked in profile.phases.items() if name in parts]
        for i, (name, profiled, clocked) in enumerate(stretches):
            rows.append((_text("" if i else profile.case), _text(name), _time(profiled), _time(clocked.recorded),
                         _change(profiled, clocked.recorded), _text(_agreed(profiled, clocked.recorded)),
                         _time(clocked.timed), _change(profiled, clocked.timed)))  # fmt: skip
    columns = ("case", "of", "profiler", "stopwatch", "difference", "agree", "without it", "difference")
    legend = (
        f"agree: within {AGREED:.0%}, from {1000 * JUDGED:.0f} ms; stopwatch: of the same steps; "
        "without it: the median of the samples, which no profiler slowed down",
    )
    return Table(columns, tuple(rows), legend)


def leaders(profiles: Sequence[Profile]) -> Table:
    """The kernel with most time in each stretch of a step."""
    rows = []
    for profile in profiles:
        first = ""
        for name, kernels in _stretches(profile):
            leader = by_name(kernels)[0]
            total = sum(kernel.total for kernel in kernels)
            same = "" if not first else "the same" if leader.name == first else "another"
            rows.append((_text("" if first else profile.case), _text(name), _text(leader.name),
                         figure(leader.calls, "{:.4g}".format), _time(leader.total),
                         _share(leader.total / total if total > 0 else 0), _text(same)))  # fmt: skip
            first = first or leader.name
    return Table(("case", "in", "kernel", "calls", "time", "share", "leads"), tuple(rows), (_OF_KERNELS,))


def others(profiles: Sequence[Profile]) -> Table:
    """Kernels that are not matrix products and take a visible share of the time of all."""
    rows = []
    for profile in profiles:
        total = sum(kernel.total for kernel in profile.kernels)
        name = profile.case
        for kernel in by_name(profile.kernels):
            if kernel.work == "product" or total <= 0 or kernel.total < VISIBLE * total:
                continue
            calls = figure(kernel.calls, "{:.4g}".format)
            rows.append((_text(name), _text(kernel.name), calls, _time(kernel.total), _share(kernel.total / total)))
            name = ""
    return Table(("case", "kernel", "calls", "time", "share"), tuple(rows), (_OF_KERNELS,))


def products(profiles: Sequence[Profile]) -> Table:
    """The share of matrix products, and of attention in one kernel, in each stretch of a step."""
    rows = []
    for profile in profiles:
        for i, (name, kernels) in enumerate(_stretches(profile)):
            total = sum(kernel.total for kernel in kernels) or 1
            shares = [
                sum(kernel.total for kernel in kernels if kernel.work == work) / total
                for work in ("product", "attention", "softmax")
            ]
            rest = max(0.0, 1 - sum(shares))
            rows.append((_text("" if i else profile.case), _text(name), *map(_share, shares), _share(rest)))
    return Table(("case", "in", "products", "attention", "softmax", "other"), tuple(rows))


def _sum(parts: Iterable[Part]) -> tuple[float, float]:
    chosen = list(parts)
    return sum(part.total for part in chosen), sum(part.flops for part in chosen)


def _is_inside(part: Part, around: str) -> bool:
    return part.path.startswith(f"{around}/") if around else part.depth == 1


def attention(profiles: Sequence[Profile]) -> Table:
    """Softmax against the two products of attention, where they are separate ranges."""
    rows = []
    for profile in profiles:
        # An attention alone has them as phases of its step.
        for around in ["", *(part.path for part in profile.parts if part.depth == 1)]:
            inside = [part for part in profile.parts if _is_inside(part, around)]
            stages = {stage: _sum(part for part in inside if part.name.replace("_", " ") == stage) for stage in _STAGES}
            time, flops = stages["softmax"]
            products_time = stages["scores"][0] + stages["weighted sum"][0]
            products_flops = stages["scores"][1] + stages["weighted sum"][1]
            if products_time <= 0 or time <= 0:
                continue
            work = Cell(f"1/{products_flops / flops:.3g}", flops / products_flops) if flops > 0 else Cell("-")
            ratio = Cell(f"1/{products_time / time:.3g}", time / products_time)
            rows.append((_text(profile.case), _text(around or "step"), _time(time), _time(products_time), ratio, work))
    return Table(("case", "in", "softmax", "products", "time ratio", "FLOP ratio"), tuple(rows))


def _moved(old: dict[str, float], new: dict[str, float], whole: float, what: str, most: int) -> Table:
    """Seconds by name, the largest change first."""
    names = sorted({**old, **new}, key=lambda name: -abs(new.get(name, 0) - old.get(name, 0)))
    rows = []
    for name in names[:most]:
        a, b = old.get(name, 0.0), new.get(name, 0.0)
        moved = figure((b - a) / whole, units.percent) if whole > 0 else Cell("-")
        rows.append((_text(name), _time(a), _time(b), _change(b, a), moved))
    left = len(names) - len(rows)
    legend = (f"… and {left} more (--rows)",) if left > 0 else ()
    return Table((what, "old", "new", "difference", "of the step"), tuple(rows), legend)


def side_by_side(old: Profile, new: Profile, most: int) -> list[Table]:
    def kernels(profile: Profile) -> dict[str, float]:
        return {kernel.name: kernel.total for kernel in by_name(profile.kernels)}

    def parts(profile: Profile) -> dict[str, float]:
        return {part.path or "(step)": part.total for part in profile.parts}

    return [
        _moved(times(old), times(new), old.profiled, what, most)
        for what, times in (("kernel", kernels), ("part", parts))
    ]
