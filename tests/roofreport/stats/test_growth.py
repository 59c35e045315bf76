# SPDX-License-Identifier: Apache-2.0
"""Exponents of known growth, and the pictures of them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import builders
import numpy as np
import pytest
from reports import Report
from roofreport.cli import main
from roofreport.io.contract import packaged
from roofreport.io.load import load
from roofreport.io.result import Case, State
from roofreport.render import result_tables
from roofreport.stats import growth
from scipy import stats


def _sweep(path: Path, overhead: float = 0.0) -> Path:
    rows = [
        builders.row(f"matmul/impl:eager/dtype:{dtype}/n:{n}", overhead + (n / 256) ** 3 * factor)
        for dtype, factor in (("fp32", 1.0), ("bf16", 0.5))
        for n in (256, 512, 1024, 2048)
    ]
    rows += [builders.row(f"matmul/impl:eager/dtype:bf16/m:{m}/n:4096/k:4096", 1.0 + m / 100) for m in (1, 16, 256)]
    return builders.write_json(path, rows)


def _found(path: Path, *wanted: str) -> list[growth.Series]:
    result = load(path)
    return growth.find(result.cases, result.contract, wanted)


def test_exact_growth(tmp_path: Path, report: Report) -> None:
    path = _sweep(tmp_path / "a.json")
    found = _found(path)
    assert [(series.family, series.axis, series.rest) for series in found] == [
        ("matmul", "n", "impl:eager/dtype:fp32"),
        ("matmul", "n", "impl:eager/dtype:bf16"),
    ]
    assert found[0].fit is not None and found[0].fit.exponent == pytest.approx(3.0)
    assert found[0].overhead_below is None
    assert "n^3.00 (3.00 to 3.00), expected n^3" in report("scaling", path)


def test_overhead_is_reported(tmp_path: Path) -> None:
    (series, _) = _found(_sweep(tmp_path / "a.json", overhead=100.0))
    assert series.overhead_below == 512
    assert "overhead-bound up to n=512" in result_tables.growth_line(series)


def test_unmeasured_cases_are_not_points(tmp_path: Path) -> None:
    rows = [builders.row(f"matmul/impl:eager/dtype:fp32/n:{n}", n / 100) for n in (256, 512)]
    rows += [builders.error_row("matmul/impl:eager/dtype:fp32/n:1024", "skipped: out of memory: 9 GB")]
    assert _found(builders.write_json(tmp_path / "a.json", rows)) == []


def test_sizes_with_equal_logarithms_are_one() -> None:
    cases = [Case(f"a/n:{n!r}", 0, State.MEASURED, seconds=1.0) for n in (1.0, 1.0 + 1e-16, 1.0 + 2e-16, 2.0, 1e308)]
    assert growth.find(cases, packaged(), ["n"]) == []


def test_fit_is_least_squares() -> None:
    random = np.random.default_rng(0)
    sizes = np.array([1.0, 2, 4, 8, 16])
    seconds = sizes**1.7 * np.exp(random.normal(0, 0.1, 5))
    fit = growth.fit_power(list(sizes), list(seconds))
    slope, offset = np.polyfit(np.log(sizes), np.log(seconds), 1)
    assert fit.exponent == pytest.approx(slope)
    assert fit.seconds(1.0) == pytest.approx(np.exp(offset))
    residue = np.log(seconds) - offset - slope * np.log(sizes)
    spread = np.sum((np.log(sizes) - np.log(sizes).mean()) ** 2)
    half = stats.t.ppf(0.975, 3) * np.sqrt(np.sum(residue**2) / 3 / spread)
    assert (fit.low, fit.high) == pytest.approx((slope - half, slope + half))


def test_axis_by_choice(tmp_path: Path, report: Report) -> None:
    path = _sweep(tmp_path / "a.json")
    (series,) = _found(path, "matmul.m")
    assert series.axis == "m"
    assert series.expected is None
    report("scaling", path, "--axis=impl", status=2)
    assert "no axis" in report.refused("scaling", builders.write_json(tmp_path / "b.json"))


def test_a_default_that_the_name_leaves_out_is_a_point(tmp_path: Path) -> None:
    rows = [builders.row(f"gemv/impl:eager/precision:bf16{batch}/n:64", 1.0) for batch in ("", "/batch:2", "/batch:4")]
    (series,) = _found(builders.write_json(tmp_path / "a.json", rows), "gemv.batch")
    assert series.sizes == (1, 2, 4)


def test_pictures(tmp_path: Path) -> None:
    path = _sweep(tmp_path / "a.json")
    assert main(["scaling", str(path), f"--svg={tmp_path / 'a.svg'}"]) == 0
    text = (tmp_path / "a.svg").read_text()
    ET.fromstring(text)
    assert text.count("stroke-dasharray") == 2


def test_points_are_relative_to_the_base_of_their_sweep(tmp_path: Path, report: Report) -> None:
    rows = [
        builders.row(f"mlp/d:{d}", total, forward_mean_ms=9.0, forward_ms=forward, backward_mean_ms=9.0)
        for d, total, forward in ((512, 3.0, 0.5), (256, 1.0, 0.25), (1280, 12.5, 0.25))
    ]
    context = {"contract": json.dumps(builders.contract(builders.family("mlp", builders.axis("d"), growth={"d": 2.0})))}
    path = builders.write_json(tmp_path / "a.json", rows, **context)
    points = report.rows("scaling", path, "--points")
    columns = ("value", "x value", "time", "x time", "x forward", "expected")
    assert [[float(point[column]) for column in columns] for point in points] == [
        pytest.approx([256, 1, 1e-3, 1, 1, 1]),
        pytest.approx([512, 2, 3e-3, 3, 2, 4]),
        pytest.approx([1280, 5, 12.5e-3, 12.5, 1, 25]),
    ]
    assert {point["x backward"] for point in points} == {""}
    assert "12.50x" in report("scaling", path, "--points")
    assert "--points" in report.refused("scaling", path, "--format=csv")
