"""Exponents of known laws, and the pictures of them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import builders
import numpy as np
import pytest
from roofreport import scaling
from roofreport.cli import main
from roofreport.load import load
from scipy import stats

_ROOT = Path(__file__).parents[2]


def _sweep(path: Path, overhead: float = 0.0) -> Path:
    rows = [
        builders.row(f"matmul/impl:eager/dtype:{dtype}/n:{n}", overhead + (n / 256) ** 3 * factor)
        for dtype, factor in (("fp32", 1.0), ("bf16", 0.5))
        for n in (256, 512, 1024, 2048)
    ]
    rows += [builders.row(f"matmul/impl:eager/dtype:bf16/m:{m}/n:4096/k:4096", 1.0 + m / 100) for m in (1, 16, 256)]
    return builders.write_json(path, rows)


def test_exact_law(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _sweep(tmp_path / "a.json")
    found = scaling.series_of(load(path))
    assert [(series.family, series.axis, series.rest) for series in found] == [
        ("matmul", "n", "impl:eager/dtype:fp32"),
        ("matmul", "n", "impl:eager/dtype:bf16"),
    ]
    assert found[0].fit.exponent == pytest.approx(3.0)
    assert found[0].overhead_below is None
    assert main(["scaling", str(path)]) == 0
    assert "n^3.00" in capsys.readouterr().out


def test_overhead_is_said(tmp_path: Path) -> None:
    (series, _) = scaling.series_of(load(_sweep(tmp_path / "a.json", overhead=100.0)))
    assert series.overhead_below == 512
    assert "overhead-bound up to n=512" in scaling.describe(series)


def test_fit_is_least_squares() -> None:
    random = np.random.default_rng(0)
    sizes = np.array([1.0, 2, 4, 8, 16])
    seconds = sizes**1.7 * np.exp(random.normal(0, 0.1, 5))
    fit = scaling.fit_power(list(sizes), list(seconds))
    expected = stats.linregress(np.log(sizes), np.log(seconds))
    assert fit.exponent == pytest.approx(expected.slope)
    half = stats.t.ppf(0.975, 3) * expected.stderr
    assert (fit.low, fit.high) == pytest.approx((expected.slope - half, expected.slope + half))


def test_axis_by_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _sweep(tmp_path / "a.json")
    (series,) = scaling.series_of(load(path), ["matmul.m"])
    assert series.axis == "m"
    assert series.expected is None
    assert main(["scaling", str(path), "--axis=impl"]) == 2
    assert main(["scaling", str(builders.write_json(tmp_path / "b.json"))]) == 2
    assert "no axis" in capsys.readouterr().err


def test_pictures(tmp_path: Path) -> None:
    path = _sweep(tmp_path / "a.json")
    assert main(["scaling", str(path), f"--svg={tmp_path / 'a.svg'}", f"--png={tmp_path / 'a.png'}"]) == 0
    text = (tmp_path / "a.svg").read_text()
    ET.fromstring(text)
    assert text.count('class="line dashed"') == 2
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_laws_are_those_of_the_benchmarks() -> None:
    declared = {}
    for path in (_ROOT / "benchmarks").rglob("*.cc"):
        source = path.read_text()
        for block in re.split(r"Family\(", source)[1:]:
            name = re.match(r'"(\w+)"', block)
            for axis, exponent in re.findall(r'ExpectLaw\("(\w+)", ([\d.]+)\)', block):
                assert name is not None, path
                declared[(name[1], axis)] = float(exponent)
    assert declared == scaling.LAWS
