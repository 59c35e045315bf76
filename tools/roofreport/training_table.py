"""Training steps as they are published: a row a size with its phases, and parameters against time."""

from __future__ import annotations

import math

from roofreport import case_name, units
from roofreport.errors import UnusableInputError
from roofreport.result import Case, Result, State, merged
from roofreport.table import Cell, Table, reason_of

FAMILY = "train_step"
_PHASES = ("forward", "backward", "optimizer")
_COMPONENTS = ("embedding", "attention", "feedforward", "norm", "head")
_HALF = "bf16_autocast"


def _steps(result: Result) -> list[Case]:
    """The training steps, repetitions merged."""
    cases = [merged(cases) for name, cases in result.by_name().items() if case_name.family(name) == FAMILY]
    if not cases:
        raise UnusableInputError(f"{result.path}: holds no case of {FAMILY}")
    return cases


def _setup(case: Case) -> str:
    """What distinguishes the row: every axis but the size."""
    axes = case_name.axes(case_name.plain(case.name))
    return " ".join(
        value if axis in ("impl", "dtype") else f"{axis} {value}" for axis, value in axes.items() if axis != "size"
    )


def _size(case: Case) -> str:
    return case_name.axes(case.name).get("size", "")


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


def published(result: Result) -> Table:
    """A row a size and setup: phases as mean ± sd, backward over forward, rates, memory, and the gain over fp32."""
    cases = _steps(result)
    measured = {case.name: case for case in cases if case.state is State.MEASURED}
    # On a GPU the datasheet's peak is known, on a CPU the measured one.
    utilisation = "mfu" if any("mfu" in case.counters for case in cases) else "mfu_measured"
    headers = ("size", "setup", *_PHASES, "bwd/fwd", "tokens/s", utilisation, "memory", "vs fp32")
    rows = []
    for case in cases:
        head = (Cell(_size(case), numeric=False), Cell(_setup(case), numeric=False))
        if case.state is not State.MEASURED:
            rows.append((*head, Cell(reason_of(case), numeric=False), *[Cell()] * (len(headers) - 3)))
            continue
        single = measured.get(case_name.with_axis(case.name, "dtype", "fp32"))
        is_half = case_name.axes(case.name).get("dtype") == _HALF
        rows.append(
            (
                *head,
                *(_phase(case, phase) for phase in _PHASES),
                _number(_ratio(case)),
                _quantity(case.counters.get("tokens/s"), ""),
                _share(case.counters.get(utilisation)),
                _quantity(case.counters.get("peak_mem"), "B"),
                _number(single.seconds / case.seconds if single and is_half else None, "{:.2f}x"),
            )
        )
    return Table(headers, tuple(rows), ("phases: mean ± standard deviation of the same steps",))


def _growth(case: Case, smaller: Case | None) -> Cell:
    """The exponent e of time ~ parameters^e from the next smaller size."""
    if smaller is None or State.MEASURED is not case.state or State.MEASURED is not smaller.state:
        return Cell()
    ratio = case.counters["parameters"] / smaller.counters["parameters"]
    exponent = math.log(case.seconds / smaller.seconds) / math.log(ratio)
    return Cell(f"{exponent:.2f}", exponent)


def parameters(result: Result) -> Table:
    """A row a size and setup: parameters by component, and how time grows against them."""
    groups: dict[str, list[Case]] = {}
    for case in _steps(result):
        if case.state is State.MEASURED and "parameters" in case.counters:
            groups.setdefault(_setup(case), []).append(case)
    if not groups:
        raise UnusableInputError(f"{result.path}: no training step was measured")
    rows = []
    for setup, cases in groups.items():
        smaller: Case | None = None
        for case in sorted(cases, key=lambda case: case.counters["parameters"]):
            same = smaller is not None and smaller.counters["parameters"] == case.counters["parameters"]
            rows.append(
                (
                    Cell(_size(case), numeric=False),
                    Cell(setup, numeric=False),
                    *(_quantity(case.counters.get(f"{component}_params"), "") for component in _COMPONENTS),
                    _quantity(case.counters["parameters"], ""),
                    Cell(units.time(case.seconds), case.seconds),
                    Cell() if same else _growth(case, smaller),
                )
            )
            smaller = case
    headers = ("size", "setup", *_COMPONENTS, "parameters", "time", "growth")
    return Table(headers, tuple(rows), ("growth: e of time ~ parameters^e, from the row above of the same setup",))
