# SPDX-License-Identifier: Apache-2.0
"""Training steps as they are published: one row per size with its phases, and parameters against time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import methodcaller
from statistics import fmean, stdev
from typing import NamedTuple

from roofreport import units
from roofreport.errors import UnusableInputError
from roofreport.io import case_name
from roofreport.io.contract import Contract
from roofreport.io.reliability import IN_DOUBT, doubt
from roofreport.io.result import Case, Result, State, merged
from roofreport.render.formats import (
    MOST_COLUMNS,
    NOTES,
    Cell,
    Column,
    Table,
    figure,
    named_like,
    note,
    ratio,
    table,
    words,
)
from roofreport.stats import places
from roofreport.stats.growth import slope
from roofreport.stats.places import doubt_between

_STEP_PHASES = {"forward_mean_ms", "backward_mean_ms"}
_SINGLE = "fp32"
_HALF = "bf16_autocast"
_MEAN = "mean_ms"
_STDDEV = "stddev_ms"
_WHOLE = "step"  # all of its phases
_OF_ALL = -1  # in place of the number of a repetition
_PARAMETERS = "_params"
_WARMUP = "warmup"
_FIRST_STEP = "first_step_ms"


def _is_step(case: Case, contract: Contract) -> bool:
    """A training step processes tokens and has a phase forward or backward. Where it was not measured, its family
    shows it: one axis names the size of a model, another how much of the step is run.
    """
    if case.state is State.MEASURED:
        return "tokens/s" in case.counters and not case.counters.keys().isdisjoint(_STEP_PHASES)
    family = contract.families.get(case_name.family(case.name))
    size = family.leading if family else None
    return bool(family and size and not size.role and family.axis(case_name.PASS))


def _steps(result: Result, repeats: bool = False) -> list[Case]:
    """The training steps: repetitions merged, or each of them and then the mean of the measured ones."""
    groups = result.by_name().values()
    cases = [case for group in groups for case in (_each_and_mean(group) if repeats else [merged(group)])]
    families = {case_name.family(case.name) for case in cases if _is_step(case, result.contract)}
    if not families:
        raise UnusableInputError(
            f"{result.path}: holds no training step of a language model: its cases have tokens, and a phase forward or"
            " backward (train_step); the verb table shows others"
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
        mean = name.replace(_STDDEV, _MEAN)
        if name.endswith(_STDDEV) and mean in common:
            counters[name] = stdev(case.counters[mean] for case in measured)
    mean_case = replace(
        measured[0], seconds=fmean(case.seconds for case in measured), counters=counters, repetition=_OF_ALL
    )
    return [*group, mean_case]


def _size_and_setup(case: Case, result: Result) -> tuple[str, dict[str, str]]:
    """The size, and the axes that distinguish the row from adjacent ones: every other axis."""
    family = result.contract.families.get(case_name.family(case.name))
    leading = family.leading if family else None
    setup = case_name.all_axes(case.name, result.contract)
    return setup.pop(leading.name, "") if leading else "", setup


def _parts_of_size(case: Case, result: Result) -> set[str]:
    """The axes that the size stands for unless they are given."""
    family = result.contract.families.get(case_name.family(case.name))
    leading = family.leading if family else None
    return {axis.name for axis in family.axes if axis.default == leading.name} if family and leading else set()


def _setup(case: Case, result: Result) -> tuple[tuple[str, str], ...]:
    """The same of cases that differ in size alone."""
    parts = _parts_of_size(case, result)
    return tuple(pair for pair in _size_and_setup(case, result)[1].items() if pair[0] not in parts)


def _axis_columns(cases: Sequence[Case], result: Result) -> list[Column[Case]]:
    """The size, and each axis that a name has: with the defaults that others omit."""
    named = dict.fromkeys(axis for case in cases for axis in case_name.axes(case.name))

    def value(case: Case, axis: str) -> Cell:
        return words(_size_and_setup(case, result)[1].get(axis, ""))

    axes = [axis for axis in named if any(axis in _size_and_setup(case, result)[1] for case in cases)][:MOST_COLUMNS]
    size: Column[Case] = ("size", lambda case: words(_size_and_setup(case, result)[0]))
    return [size, *((axis, partial(value, axis=axis)) for axis in axes)]


def _statistic(phase: str, statistic: str) -> str:
    """The name of its counter."""
    return statistic if phase == _WHOLE else f"{phase}_{statistic}"


def _deviation(case: Case, phase: str) -> Cell:
    deviation = case.deviation(_statistic(phase, _STDDEV))
    return Cell() if deviation is None else Cell(f"{units.digits(deviation, 2)} ms", deviation / 1e3)


def _phase(case: Case, phase: str) -> Cell:
    mean, deviation = case.counters.get(_statistic(phase, _MEAN)), _deviation(case, phase)
    if mean is None:
        return Cell()
    spread = f" ± {deviation.text}" if deviation.text else " ms"
    return Cell(f"{units.digits(mean)}{spread}", mean / 1e3)


def _plain(value: float) -> str:
    return units.quantity(value, "").strip()


def published(results: Sequence[Result], repeats: bool = False, deviations: bool = False) -> Table:
    """One row per size and setup: phases as mean ± sd, backward over forward, rates, memory, and the gain over fp32.
    Those of several results follow each other.

    `repeats`: one row per repetition, and then their mean. `deviations`: in separate columns, for programs that read
    numbers.
    """
    files = [_steps(result, repeats) for result in results]
    cases = [case for own in files for case in own]
    place = {id(case): number for number, own in enumerate(files) for case in own}
    measured = [{case.name: case for case in own if case.state is State.MEASURED} for own in files]
    # On a GPU the datasheet's peak is known, on a CPU the measured one.
    utilization = "mfu" if any("mfu" in case.counters for case in cases) else "mfu_measured"
    phases = named_like(cases, f"_{_MEAN}") or ["forward"]  # none where all were skipped: the reason stands there

    def backward_over_forward(case: Case) -> Cell:
        forward, backward = case.counters.get("forward_mean_ms"), case.counters.get("backward_mean_ms")
        over = figure(backward / forward if forward and backward else None, "{:.2f}".format)
        return Cell(IN_DOUBT) if over.text and doubt(case) else over

    def gain(case: Case) -> Cell:
        single = measured[place[id(case)]].get(case_name.with_axis(case.name, case_name.DTYPE, _SINGLE))
        is_half = case_name.axes(case.name).get(case_name.DTYPE) == _HALF
        if not single or not is_half:
            return Cell()
        return Cell(IN_DOUBT) if doubt_between(single, case) else figure(single.seconds / case.seconds, units.times)

    def first_step(case: Case) -> Cell:
        milliseconds = case.counters.get(_FIRST_STEP)
        return figure(milliseconds / 1e3 if milliseconds is not None else None, units.time)

    columns = _axis_columns(cases, results[0])
    if len(results) > 1:
        columns.insert(0, ("file", lambda case: words(f"[{place[id(case)] + 1}]")))
    warms_up = any(name == _WARMUP for name, _ in columns)
    if warms_up and len(phases) > 1:
        phases.append(_WHOLE)
    if repeats:
        columns.append(
            ("repeat", lambda case: words("mean" if case.repetition == _OF_ALL else f"{case.repetition + 1}"))
        )
    named = len(columns)
    columns += [
        *((phase, partial(_phase, phase=phase)) for phase in phases),
        *((f"{phase} sd", partial(_deviation, phase=phase)) for phase in phases if deviations),
        *((("first step", first_step),) if warms_up else ()),
        ("bwd/fwd", backward_over_forward),
        ("tokens/s", lambda case: figure(case.counters.get("tokens/s"), _plain)),
        (utilization, lambda case: figure(case.counters.get(utilization), units.share)),
        ("memory", lambda case: figure(case.counters.get("peak_mem"), units.bytes_)),
        ("vs fp32", gain),
        (NOTES, lambda case: note(doubt(case))),
    ]
    legend = ["phases: mean ± standard deviation of the same steps; tokens/s: of the median step"]
    if any(len(group) > 1 for result in results for group in result.by_name().values()) and not repeats:
        legend.append("of repetitions: the median of each figure by itself; --repeats has a row for each of them")
    legend += places.legend(cases)
    if repeats:
        legend.append("mean: of the repetitions above it, ± standard deviation between them")
    if len(results) > 1:
        legend += [f"[{number}] {result.name}" for number, result in enumerate(results, 1)]
    found = table(cases, columns, legend, lambda case: "" if case.state is State.MEASURED else case.why_not, named)
    return found.without_empty_columns()


def _growth(case: Case, smaller: Case | None) -> Cell:
    """The exponent e of time ~ parameters^e from the next smaller size."""
    if smaller is None:
        return Cell()
    sizes = smaller.counters["parameters"], case.counters["parameters"]
    # Growth needs valid sizes, and two whose logarithms differ.
    if not 0 < sizes[0] < sizes[1] or math.log(sizes[0]) == math.log(sizes[1]):
        return Cell()
    if doubt_between(smaller, case):
        return Cell(IN_DOUBT)
    return figure(slope(sizes[0], smaller.seconds, sizes[1], case.seconds), "{:.2f}".format)


class _Size(NamedTuple):
    """One size of a setup, with the smallest size of the setup and the next smaller one."""

    case: Case
    smallest: Case
    smaller: Case | None

    def over_smallest(self, value: float | None, base: float | None) -> Cell:
        return Cell(IN_DOUBT) if doubt_between(self.case, self.smallest) else ratio(value, base)

    def growth_of(self, counter: str) -> Cell:
        return self.over_smallest(self.case.counters.get(counter), self.smallest.counters.get(counter))


def _parameters(row: _Size, component: str) -> Cell:
    return figure(row.case.counters.get(component), _plain)


def parameters(result: Result) -> Table:
    """One row per size and setup: parameters by component, and how time grows against them."""
    groups: dict[tuple[tuple[str, str], ...], list[Case]] = {}
    measured = [case for case in _steps(result) if case.state is State.MEASURED and "parameters" in case.counters]
    for case in measured:
        groups.setdefault(_setup(case, result), []).append(case)
    if not groups:
        raise UnusableInputError(f"{result.path}: no training step was measured")
    rows = []
    for cases in groups.values():
        cases.sort(key=lambda case: case.counters["parameters"])
        rows += [_Size(case, cases[0], smaller) for case, smaller in zip(cases, [None, *cases], strict=False)]

    def of_case(row: _Size, cell: Callable[[Case], Cell]) -> Cell:
        return cell(row.case)

    named: list[Column[_Size]] = [(name, partial(of_case, cell=cell)) for name, cell in _axis_columns(measured, result)]
    counts: list[Column[_Size]] = [
        *(
            (component, partial(_parameters, component=component + _PARAMETERS))
            for component in named_like(measured, _PARAMETERS)
        ),
        ("parameters", partial(_parameters, component="parameters")),
    ]
    if all(row.smaller is None for row in rows):  # nothing grows: what one size has is the same in every setup
        distinct = {tuple(cell.value for _, of in counts for cell in [of(row)]): row for row in reversed(rows)}
        parts = set().union(*(_parts_of_size(case, result) for case in measured))
        sizes = [named[0], *(column for column in named[1:] if column[0] in parts)]
        more = "measure a second size to see how time grows with them"
        return table([*reversed(distinct.values())], [*sizes, *counts], [more])
    columns: list[Column[_Size]] = [
        *named,
        *counts,
        ("time", lambda row: figure(row.case.seconds, units.time)),
        ("x time", lambda row: row.over_smallest(row.case.seconds, row.smallest.seconds)),
        *((f"x {phase}", methodcaller("growth_of", f"{phase}_{_MEAN}")) for phase in named_like(measured, f"_{_MEAN}")),
        ("growth", lambda row: _growth(row.case, row.smaller)),
    ]
    legend = (
        "x: times the smallest size of the same setup",
        "growth: e of time ~ parameters^e, from the row above of the same setup",
        *places.legend(measured),
    )
    return table(rows, columns, legend)
