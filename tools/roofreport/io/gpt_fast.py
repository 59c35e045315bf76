# SPDX-License-Identifier: Apache-2.0
"""The columns of gpt-fast's benchmark.py, so that its readers can be fed from our results."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from roofreport.errors import UnusableInputError
from roofreport.io import case_name
from roofreport.io.contract import IMPLEMENTATION, Contract
from roofreport.io.result import Case, Result, State
from roofreport.text import shortened, spreadsheet

COLUMNS = ("name", "metric", "target", "actual", "dtype", "device", "arch", "is_model")
_LEAST = {"name", "metric", "actual"}  # what a row means nothing without
_GIGA = 1e9
_LONGEST_HEADER = 1000
_OF_A100 = "a100_flop_util"
# Counter, the metric that gpt-fast calls it, and its scale.
_METRICS = (
    # gpt-fast counts the time of the prompt.
    ("e2e_tokens/s", "token_per_sec", 1.0),
    ("tokens/s", "token_per_sec", 1.0),
    ("bytes/s", "memory_bandwidth(GB/s)", _GIGA),
    ("flop_util", "flops_utilization", 1.0),
    # For devices whose peak is missing from our datasheets: against the device of the targets.
    (_OF_A100, "flops_utilization(A100)", 1.0),
)


# Counters that step back where a case has the other one.
_RATHER = {_OF_A100: "flop_util", "tokens/s": "e2e_tokens/s"}


class Experiment(NamedTuple):
    """A micro experiment that gpt-fast publishes: the mean of a metric over four sizes, and its target on an A100."""

    name: str  # of the experiment and of our family
    dtype: str
    size_axis: str
    counter: str
    target: float | None
    others: frozenset[tuple[str, str]] = frozenset()  # further axes that a case must have, in addition to impl


_SIZES = ("1024", "4096", "8192", "16384")
_BF16 = frozenset({(case_name.PRECISION, "bf16")})
_INT8 = frozenset({(case_name.PRECISION, "int8")})
EXPERIMENTS = (
    # Its target, 0.8, is of another figure: gpt-fast multiplies FLOPs by time and takes one row. These are the true
    # share, which has no target, and the limiting bandwidth.
    Experiment("mlp_layer_norm_gelu", "bf16", "d", "flop_util", None),
    Experiment("mlp_layer_norm_gelu", "bf16", "d", _OF_A100, None),
    Experiment("mlp_layer_norm_gelu", "bf16", "d", "bytes/s", None),
    Experiment("layer_norm", "bf16", "d", "bytes/s", 950, frozenset({(case_name.DTYPE, "bf16")})),
    Experiment("gather_gemv", "int8", "n", "bytes/s", 990, _INT8),
    Experiment("gather_gemv", "bf16", "n", "bytes/s", 1060, _BF16),
    Experiment("gemv", "int8", "n", "bytes/s", 870, _INT8),
    Experiment("gemv", "bf16", "n", "bytes/s", 990, _BF16),
)


def _has(case: Case, counter: str) -> bool:
    return counter in case.counters and _RATHER.get(counter) not in case.counters


def _sizes_of(experiment: Experiment, cases: Mapping[str, Case], contract: Contract) -> dict[str, dict[str, float]]:
    """Implementation to size to value, for the cases of the experiment alone."""
    found: dict[str, dict[str, float]] = {}
    for name, case in cases.items():
        rest, impl = case_name.with_role(name, IMPLEMENTATION, contract)
        axes = case_name.axes(rest)
        size = axes.pop(experiment.size_axis, "")
        if case_name.family(name) != experiment.name or size not in _SIZES or axes.items() != experiment.others:
            continue
        if _has(case, experiment.counter):
            found.setdefault(impl, {})[size] = case.counters[experiment.counter]
    return found


def rows(result: Result) -> list[dict[str, str]]:
    """The published experiments, one row per implementation that measured every size of one; then one row per measured
    case and metric, with a target where one is published.
    """
    found = []

    def add(name: str, metric: str, actual: float, target: float | None, dtype: str, is_model: bool = False) -> None:
        texts = (name, metric, "" if target is None else f"{target:g}", f"{actual:.6g}", dtype)
        device = (result.context.get("device_kind", ""), result.context.get("device", ""))
        found.append(dict(zip(COLUMNS, (*map(_text, (*texts, *device)), str(is_model)), strict=True)))

    cases = {name: case for name, case in result.merged().items() if case.state is State.MEASURED}
    for experiment in EXPERIMENTS:
        metric, scale = next((metric, scale) for counter, metric, scale in _METRICS if counter == experiment.counter)
        for impl, values in _sizes_of(experiment, cases, result.contract).items():
            if len(values) == len(_SIZES):
                mean = fmean(values.values()) / scale
                add(f"{experiment.name} ({impl})", metric, mean, experiment.target, experiment.dtype)
    for name, case in cases.items():
        dtype = case_name.dtype(name, result.contract)
        for counter, metric, scale in _METRICS:
            if _has(case, counter):
                published = case.counters.get(f"target_{counter}")
                target = None if published is None else published / scale
                add(name, metric, case.counters[counter] / scale, target, dtype, "parameters" in case.counters)
    return found


def _text(text: str) -> str:
    return spreadsheet(text)


def columns_of(path: Path) -> tuple[str, ...]:
    """The columns of this file, of which earlier releases of gpt-fast wrote fewer; none for a new or empty one. Refuses
    a file of other columns, and files that are not text.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            first = file.readline(_LONGEST_HEADER)
    except FileNotFoundError:
        return ()
    except UnicodeDecodeError:
        first = "bytes that are not text"
    except OSError as error:
        raise UnusableInputError(f"{path}: {error.strerror}; name another --output") from error
    columns = tuple(first.rstrip("\r\n").split(",")) if first else ()
    if columns and not (_LEAST <= set(columns) <= set(COLUMNS) and len(set(columns)) == len(columns)):
        raise UnusableInputError(
            f"{path}: begins with {shortened(first.rstrip(), 80)!r}, and rows in gpt-fast's columns "
            f"({','.join(COLUMNS)}) cannot follow; name another --output"
        )
    return columns


def text(results: Sequence[Result], columns: Sequence[str] = ()) -> str:
    """Rows in these columns; without any, in all of them after a header."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns or COLUMNS, lineterminator="\n", extrasaction="ignore")
    if not columns:
        writer.writeheader()
    for result in results:
        writer.writerows(rows(result))
    return out.getvalue()
