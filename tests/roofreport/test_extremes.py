# SPDX-License-Identifier: Apache-2.0
"""Numbers at the ends of what a double holds, and below zero: refused with a reason or shown, never a traceback."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import builders
import fuzz_results
import mutations
import pytest
from roofreport import units
from roofreport.cli import main
from roofreport.io.contract import packaged
from roofreport.io.result import Case, State
from roofreport.render import result_tables
from roofreport.render.chart import LEAST, MOST, Line, Range, clipped, spanning
from roofreport.stats import growth

_EXTREMES = (5e-324, -5e-324, 1e-200, 1e100, -1e100, 1e308, -1e308, -1.0, 0.0)
_COUNTERS = (
    *("FLOP/s", "bytes/s", "roof", "stddev_ms", "mean_ms", "samples", "a100_flop_util", "a100_mem_util", "ttft_ms"),
    *("itl_ms", "tokens/s", "model_bytes", "parameters", "forward_mean_ms", "backward_mean_ms", "head_params"),
)


def _every_verb(folder: Path, document: dict[str, Any]) -> None:
    assert fuzz_results.Fuzzer(0, folder).given(json.dumps(document).encode(), 1) == []


@pytest.mark.parametrize("value", _EXTREMES)
def test_counters(value: float, tmp_path: Path) -> None:
    """In the first of every two cases, so that they meet ordinary ones; then in all."""
    for step in (2, 1):
        document = builders.document(mutations.rows())
        for row in document["benchmarks"][::step]:
            row.update({name: value for name in _COUNTERS if name in row})
        _every_verb(tmp_path, document)


def test_shares_and_rates_at_both_ends(tmp_path: Path) -> None:
    """Their quotient is zero, or beyond all numbers."""
    document = builders.document(mutations.rows())
    for number, row in enumerate(document["benchmarks"]):
        ends = (5e-324, 1e100) if number % 2 else (1e100, 5e-324)
        for names, value in zip(
            (("FLOP/s", "bytes/s"), ("a100_flop_util", "a100_mem_util", "roof")), ends, strict=True
        ):
            row.update({name: value for name in names if "FLOP/s" in row})
    _every_verb(tmp_path, document)


@pytest.mark.parametrize("value", (5e-324, 1e-200, 1e-9, 1e15, 1e308, -1.0))
def test_times(value: float, tmp_path: Path) -> None:
    for step in (2, 1):
        document = builders.document(mutations.rows())
        for row in document["benchmarks"][::step]:
            row.update(real_time=value, cpu_time=value)
        _every_verb(tmp_path, document)


@pytest.mark.parametrize("value", ("5e-324", "1e308", "-1", "0", "1e100", "nan", "inf", "1e-300"))
def test_sizes_and_roofs(value: str, tmp_path: Path) -> None:
    rows = [builders.row(f"matmul/dtype:fp32/n:{n}", 1.0) | {"FLOP/s": 1e9} for n in (value, "256", "512", "1e300")]
    document = builders.document(rows, roof_read=value, roof_fp32=value, roof_copy="1e308", roof_bf16="5e-324")
    _every_verb(tmp_path, document)


@pytest.mark.parametrize("exponent", (1e308, -1e308, 5e-324, 0.0, -3.0))
def test_expected_growth(exponent: float, tmp_path: Path) -> None:
    contract = builders.contract(builders.family("matmul", builders.axis("n"), growth={"n": exponent}))
    rows = [builders.row(f"matmul/n:{n}", float(n)) for n in (1, 2, 4)]
    _every_verb(tmp_path, builders.document(rows, contract=json.dumps(contract)))


@pytest.mark.parametrize("low", (5e-324, 1e-300, 1.0, 1e99, 1e308))
@pytest.mark.parametrize("factor", (1.0, 1.0000001, 1e10, 1e300))
@pytest.mark.parametrize("margin", (1.3, 3.0))
def test_a_range_is_one(low: float, factor: float, margin: float) -> None:
    found = spanning([low, low * factor, -1.0, math.inf, math.nan], margin)
    assert LEAST <= found.low < found.high <= MOST
    assert 0 <= found.place(low) <= 1
    assert 1 <= len(found.ticks()) <= 20
    for value in (0.0, -1.0, math.inf, 5e-324):
        assert math.isfinite(found.place(value))


def test_a_line_beyond_the_axes_is_clipped() -> None:
    axes = Range(LEAST, MOST)
    (start, _), (end, _) = clipped(Line(((5e-324, 1.0), (1e308, 1.0))), axes, axes)
    assert start == pytest.approx(LEAST)
    assert end == pytest.approx(MOST)


def test_memory_that_has_no_speed_has_no_mode() -> None:
    def case(rate: float, roof: float) -> Case:
        return Case("a", 0, State.MEASURED, seconds=1.0, counters={"bytes/s": rate, "roof": roof})

    assert [result_tables.memory_rate(case(*pair)) for pair in ((1.0, -1.0), (-1.0, 1.0), (1e100, 5e-324))] == [
        None
    ] * 3


def test_sizes_that_no_logarithm_tells_apart_are_one() -> None:
    cases = [Case(f"a/n:{n!r}", 0, State.MEASURED, seconds=1.0) for n in (1.0, 1.0 + 1e-16, 1.0 + 2e-16, 2.0, 1e308)]
    assert growth.find(cases, packaged(), ["n"]) == []


@pytest.mark.parametrize("value", (math.nan, math.inf, -math.inf, 1e308, 5e-324, -1.0))
def test_units_of_anything(value: float) -> None:
    for text in (units.time(value), units.quantity(value, "B"), units.digits(value), units.percent(value)):
        assert text


@pytest.mark.parametrize(
    "arguments",
    [
        *(["repeat", "true", f"--processes={value}"] for value in ("-1", "0", "1e308", "5e-324", "9" * 5000, "²")),
        *(["abba", "true", "true", f"--pairs={value}"] for value in ("-1", "0", "1e308", "9" * 5000)),
        *(["abba", "true", "true", f"--max-time={value}"] for value in ("-1", "0", "nan", "inf", "1e308", "5e-324")),
        *(["abba", "true", "true", f"--budget={value}"] for value in ("-1", "0", "nan", "5e-324", "9" * 500)),
    ],
    ids=lambda arguments: arguments[-1][:30],
)
def test_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("tools/report")
