# SPDX-License-Identifier: Apache-2.0
"""The roofline picture: every case under real roofs."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import builders
import pytest
from roofreport.cli import main
from roofreport.io.load import load
from roofreport.io.result import Result
from roofreport.render import page, roofline


def _result(tmp_path: Path) -> Result:
    lines = [builders.line(name, time) for name, time in builders.TIMES.items()]
    lines += [builders.line(name, 1.0, flops=1e6, bytes=1e6) for name in builders.HOSTILE]
    lines += [builders.line("huge/n:1", 1.0, verdict="skipped", reason="out of memory: <b>80 GB</b>")]
    path = tmp_path / "run.jsonl"
    path.write_text(builders.journal_text(builders.header(device="<i>CPU</i>"), *lines))
    return load(path)


def test_roofs(tmp_path: Path) -> None:
    result = _result(tmp_path)
    measured = roofline.measured_roofs(result)
    assert measured.memory == {"read": 5e10, "copy": 6e10}
    assert measured.compute == {"fp32": 5e11, "bf16": 1e12}
    (sheet,) = roofline.datasheet_roofs(result, list(result.merged().values()))
    assert sheet.title == "a100-sxm4-40gb"
    assert sheet.memory["memory"] == pytest.approx(1555e9)
    assert sheet.compute["fp32"] == pytest.approx(19.5e12)
    assert sheet.compute["bf16"] == pytest.approx(312e12)
    drawn = roofline.chart(result)
    assert {line.dashed for line in drawn.lines} == {True, False}
    labels = " ".join(line.label for line in drawn.lines)
    assert "measured: bf16 1 TFLOP/s" in labels and "a100-sxm4-40gb: memory 1.555 TB/s" in labels


def test_marks_lie_where_they_belong(tmp_path: Path) -> None:
    result = _result(tmp_path)
    drawn = roofline.chart(result)
    cases = list(result.merged().values())
    assert len(drawn.marks) == 2 + len(builders.HOSTILE)
    for mark in drawn.marks:
        case = cases[mark.index]
        assert mark.x == pytest.approx(case.flops / case.bytes)
        assert mark.y == pytest.approx(case.flops / case.seconds)
        assert 0 < drawn.x.place(mark.x) < 1
        assert 0 < drawn.y.place(mark.y) < 1


def test_files(tmp_path: Path) -> None:
    _result(tmp_path)
    out = tmp_path / "out"
    arguments = [f"--{kind}={out}.{kind}" for kind in ("html", "svg")]
    assert main(["roofline", str(tmp_path / "run.jsonl"), *arguments]) == 0
    svg = ET.fromstring(out.with_suffix(".svg").read_text())
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [one for one in svg.iter() if one.tag.endswith("script")]
    assert main(["roofline", str(tmp_path / "run.jsonl")]) == 2


def test_every_family_has_its_own_color(tmp_path: Path) -> None:
    rows = [builders.row(f"family{number}/n:1", 1.0) | {"FLOP/s": 1e9, "bytes/s": 1e9} for number in range(40)]
    result = load(builders.write_json(tmp_path / "run.json", rows))
    colors = roofline.family_colors(list(result.cases))
    assert len(set(colors.values())) == 40
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in colors.values())


def test_a_mark_in_doubt_is_pale_and_says_why(tmp_path: Path) -> None:
    quiet = builders.row(builders.MATMUL, 10.0)
    noisy = builders.row(builders.GEMV, 1.0) | {"noisy": 1.0, "disturbed": 1.0}
    result = load(builders.write_json(tmp_path / "run.json", [quiet, noisy]))
    chart = roofline.chart(result)
    drawn = {mark.label.splitlines()[0]: mark for mark in chart.marks}
    shaped = {key.label for key in chart.keys if key.shape}
    assert shaped == {"fp32", "bf16"} and chart.keys[-1].label == "pale with a rim: in doubt"
    assert not drawn[builders.MATMUL].doubtful
    assert drawn[builders.GEMV].doubtful
    assert drawn[builders.GEMV].label.endswith("\nnoisy, disturbed")
    text = page.render(result)
    assert text.count("in doubt") == 1, "the legend of the page: its picture has none"
    assert "Click a family to hide or show it" in text
    (tmp_path / "quiet").mkdir()
    alone = page.render(load(builders.write_json(tmp_path / "quiet/run.json", [quiet])))
    assert "in doubt" not in alone


@pytest.mark.parametrize(
    ("case", "computes", "measured", "peak", "labeled"),
    [
        ("matmul/dtype:bf16/n:1", ["bf16"], ["bf16", "fp32"], 312e12, "bf16 312 TFLOP/s"),
        ("gelu/dtype:bf16/n:1", ["fp32"], ["bf16", "fp32"], 19.5e12, "fp32 19.5 TFLOP/s"),
        ("gemv/precision:int8/n:1", ["bf16"], ["bf16", "int8"], 312e12, "bf16 312 TFLOP/s"),
        ("mlp/dtype:bf16_autocast/n:1", ["bf16", "fp32"], ["bf16", "fp32"], 287.2e12, ""),
        ("gelu/dtype:bf16/n:1", [], ["fp32"], 19.5e12, "fp32 19.5 TFLOP/s"),
        ("gelu/dtype:bf16/n:1", [], ["bf16", "fp32"], 19.5e12, ""),
    ],
)
def test_a_peak_of_a_datasheet_is_of_the_arithmetic_it_is_reached_in(
    case: str, computes: list[str], measured: list[str], peak: float, labeled: str, tmp_path: Path
) -> None:
    """Joint peaks of two precisions are no roofs, and a row of JSON says nothing of its own."""
    line = builders.line(case, 1.0, flops=1e9, bytes=1e6, flops_by_precision=dict.fromkeys(computes, 1e9))
    line["counters"] |= {"FLOP/s": 1e12, "bytes/s": 1e9, "a100_flop_util": 1e12 / peak}
    header = builders.header()
    header["context"] = {key: value for key, value in header["context"].items() if not key.startswith("roof_")}
    header["context"] |= {f"roof_{one}": "5e11" for one in measured}
    path = tmp_path / "run.jsonl"
    path.write_text(builders.journal_text(header, line))
    labels = [line.label for line in roofline.chart(load(path)).lines if line.dashed]
    assert labels == ([f"a100-sxm4-40gb: {labeled}"] if labeled else [])


@pytest.mark.parametrize(("count", "last"), [(12, "type11"), (40, "other types")])
def test_every_type_has_its_own_shape(count: int, last: str, tmp_path: Path) -> None:
    rows = [builders.row(f"a/dtype:type{one}/n:1", 1.0) | {"FLOP/s": 1e9, "bytes/s": 1e9} for one in range(count)]
    drawn = roofline.chart(load(builders.write_json(tmp_path / "run.json", rows)))
    keys = [key for key in drawn.keys if key.family is None]
    assert len({key.shape for key in keys}) == len(keys) and keys[-1].label == last
    assert {mark.shape for mark in drawn.marks} == {key.shape for key in keys}


def test_the_type_of_a_row_is_its_dtype_or_else_the_format_of_its_weights(tmp_path: Path) -> None:
    names = ["matmul/dtype:fp32/n:1", "gemv/precision:int8/n:1", "copy/n:1"]
    rows = [builders.row(name, 1.0) | {"FLOP/s": 1e9, "bytes/s": 1e9} for name in names]
    keys = roofline.chart(load(builders.write_json(tmp_path / "run.json", rows))).keys
    assert [key.label for key in keys if key.family is None] == ["fp32", "int8", "no type"]
