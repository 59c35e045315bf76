# SPDX-License-Identifier: Apache-2.0
"""Training steps as they are published: one row per size with its phases, and parameters against time."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean, stdev

from roofreport import units
from roofreport.errors import UnusableInputError
from roofreport.io import case_name
from roofreport.io.contract import IMPLEMENTATION
from roofreport.io.result import Case, Result, State, merged
from roofreport.render.formats import MOST_COLUMNS, Cell, Table
from roofreport.stats.growth import slope
from roofreport.text import printable

# A family of training steps processes tokens and has a backward phase.
_MARKS = {"tokens/s", "backward_mean_ms"}
_SINGLE = "fp32"
_HALF = "bf16_autocast"
_MEAN = "_mean_ms"
_STDDEV = "_stddev_ms"
_OF_ALL = -1  # in place of the number of a repetition
_PARAMETERS = "_params"


def _steps(result: Result, repeats: bool = False) -> list[Case]:
    """The training steps: repetitions merged, or each of them and then the mean of the measured ones."""
    groups = result.by_name().values()
    cases = [case for group in groups for case in (_each_and_mean(group) if repeats else [merged(group)])]
    families = {case_name.family(case.name) for case in cases if case.counters.keys() >= _MARKS}
    if not families:
        raise UnusableInputError(
            f"{printable(str(result.path))}: holds no measured training step (tokens and a phase backward)"
        )
    return [case for case in cases if case_name.family(case.name) in families]


def _each_and_mean(group: list[Case]) -> list[Case]:
    """The repetitions, and a case whose figures are their means and whose deviations are those between them."""
    measured = [case for case in group if case.state is State.MEASURED]
    if len(measured) < 2:
        return group
    common = set.intersection(*(set(case.counters) for case in measured))
    counters = {
        name: fmean(case.counters[name] for case in measured) for name in measured[0].counters if name in common
    }
    for name in common:
        mean = name.removesuffix(_STDDEV) + _MEAN
        if name.endswith(_STDDEV) and mean in common:
            counters[name] = stdev(case.counters[mean] for case in measured)
    mean_case = replace(
        measured[0], seconds=fmean(case.seconds for case in measured), counters=counters, repetition=_OF_ALL
    )
    return [*group, mean_case]


def _named_like(cases: list[Case], suffix: str) -> list[str]:
    """The names of counters without this suffix, in order of appearance, up to the limit of columns."""
    counters = dict.fromkeys(name for case in cases for name in case.counters if name.endswith(suffix))
    return [name.removesuffix(suffix) for name in counters][:MOST_COLUMNS]


def _size_and_setup(case: Case, result: Result) -> tuple[str, str]:
    """The size, and the axes that distinguish the row from adjacent ones: every other axis."""
    family = result.contract.families.get(case_name.family(case.name))
    leading = family.leading if family else None
    axes = case_name.axes(case.name)
    size = axes.pop(leading.name, "") if leading else ""
    values_alone = (IMPLEMENTATION, case_name.DTYPE)
    setup = [value if axis in values_alone else f"{axis} {value}" for axis, value in axes.items()]
    return size, " ".join(setup)


def _repeat(case: Case) -> str:
    return "mean" if case.repetition == _OF_ALL else str(case.repetition + 1)


def _deviation(case: Case, phase: str) -> Cell:
    deviation = case.counters.get(phase + _STDDEV)
    return Cell() if deviation is None else Cell(f"{units.digits(deviation, 2)} ms", deviation / 1e3)


def _phase(case: Case, phase: str) -> Cell:
    mean, deviation = case.counters.get(f"{phase}_mean_ms"), case.counters.get(f"{phase}_stddev_ms")
    if mean is None or deviation is None:
        return Cell()
    return Cell(f"{units.digits(mean)} ± {units.digits(deviation, 2)} ms", mean / 1e3)


def _number(value: float | None, text: str = "{:.2f}") -> Cell:
    return Cell() if value is None else Cell(text.format(value), value)


def _ratio(case: Case) -> float | None:
    forward, backward = case.counters.get("forward_mean_ms"), case.counters.get("backward_mean_ms")
    return backward / forward if forward and backward else None


def _quantity(value: float | None, unit: str) -> Cell:
    return Cell() if value is None else Cell(units.quantity(value, unit).strip(), value)


def _share(value: float | None) -> Cell:
    return Cell() if value is None else Cell(f"{units.digits(100 * value)} %", value)


def published(result: Result, repeats: bool = False, deviations: bool = False) -> Table:
    """One row per size and setup: phases as mean ± sd, backward over forward, rates, memory, and the gain over fp32.

    `repeats`: one row per repetition, and then their mean. `deviations`: in separate columns, for programs that read
    numbers.
    """
    cases = _steps(result, repeats)
    measured = {case.name: case for case in cases if case.state is State.MEASURED}
    # On a GPU the datasheet's peak is known, on a CPU the measured one.
    utilisation = "mfu" if any("mfu" in case.counters for case in cases) else "mfu_measured"
    phases = _named_like(cases, _MEAN)
    spread = tuple(phases) if deviations else ()
    headers = (
        *("size", "setup"),
        *(("repeat",) if repeats else ()),
        *phases,
        *(f"{phase} sd" for phase in spread),
        *("bwd/fwd", "tokens/s", utilisation, "memory", "vs fp32"),
    )
    rows = []
    for case in cases:
        size, setup = _size_and_setup(case, result)
        head = [Cell(printable(size), numeric=False), Cell(printable(setup, 300), numeric=False)]
        if repeats:
            head.append(Cell(_repeat(case), numeric=False))
        if case.state is not State.MEASURED:
            rows.append((*head, Cell(case.why_not, numeric=False), *[Cell()] * (len(headers) - len(head) - 1)))
            continue
        single = measured.get(case_name.with_axis(case.name, case_name.DTYPE, _SINGLE))
        is_half = case_name.axes(case.name).get(case_name.DTYPE) == _HALF
        rows.append(
            (
                *head,
                *(_phase(case, phase) for phase in phases),
                *(_deviation(case, phase) for phase in spread),
                _number(_ratio(case)),
                _quantity(case.counters.get("tokens/s"), ""),
                _share(case.counters.get(utilisation)),
                _quantity(case.counters.get("peak_mem"), "B"),
                _number(single.seconds / case.seconds if single and is_half else None, "{:.2f}x"),
            )
        )
    legend = ["phases: mean ± standard deviation of the same steps"]
    if repeats:
        legend.append("mean: of the repetitions above it, ± standard deviation between them")
    return Table(headers, tuple(rows), tuple(legend)).without_empty_columns()


def _times(value: float | None, base: float | None) -> Cell:
    return _number(value / base if value is not None and base else None, "{:.2f}x")


def _growth(case: Case, smaller: Case | None) -> Cell:
    """The exponent e of time ~ parameters^e from the next smaller size."""
    if smaller is None or State.MEASURED is not case.state or State.MEASURED is not smaller.state:
        return Cell()
    sizes = smaller.counters["parameters"], case.counters["parameters"]
    # Growth needs valid sizes, and two whose logarithms differ.
    if not 0 < sizes[0] < sizes[1] or math.log(sizes[0]) == math.log(sizes[1]):
        return Cell()
    exponent = slope(sizes[0], smaller.seconds, sizes[1], case.seconds)
    return Cell(f"{exponent:.2f}", exponent)


def parameters(result: Result) -> Table:
    """One row per size and setup: parameters by component, and how time grows against them."""
    groups: dict[str, list[Case]] = {}
    measured = [case for case in _steps(result) if case.state is State.MEASURED and "parameters" in case.counters]
    for case in measured:
        groups.setdefault(_size_and_setup(case, result)[1], []).append(case)
    if not groups:
        raise UnusableInputError(f"{printable(str(result.path))}: no training step was measured")
    components = _named_like(measured, _PARAMETERS)
    phases = _named_like(measured, _MEAN)
    rows = []
    for setup, cases in groups.items():
        smaller: Case | None = None
        by_size = sorted(cases, key=lambda case: case.counters["parameters"])
        for case in by_size:
            rows.append(
                (
                    Cell(printable(_size_and_setup(case, result)[0]), numeric=False),
                    Cell(printable(setup, 300), numeric=False),
                    *(_quantity(case.counters.get(f"{component}_params"), "") for component in components),
                    _quantity(case.counters["parameters"], ""),
                    Cell(units.time(case.seconds), case.seconds),
                    _times(case.seconds, by_size[0].seconds),
                    *(
                        _times(case.counters.get(phase + _MEAN), by_size[0].counters.get(phase + _MEAN))
                        for phase in phases
                    ),
                    _growth(case, smaller),
                )
            )
            smaller = case
    ratios = ("x time", *(f"x {phase}" for phase in phases))
    headers = ("size", "setup", *components, "parameters", "time", *ratios, "growth")
    legend = (
        "x: times the smallest size of the same setup",
        "growth: e of time ~ parameters^e, from the row above of the same setup",
    )
    return Table(headers, tuple(rows), legend)
