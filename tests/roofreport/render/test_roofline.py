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
    rows = builders.scaled(1.0)
    rows += [builders.row(name, 1.0) | {"FLOP/s": 1e9, "bytes/s": 1e9} for name in builders.HOSTILE]
    rows += [builders.error_row("huge/n:1", "skipped: out of memory: <b>80 GB</b>")]
    return load(builders.write_json(tmp_path / "run.json", rows, device="<i>CPU</i>"))


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
    assert main(["roofline", str(tmp_path / "run.json"), *arguments]) == 0
    svg = ET.fromstring(out.with_suffix(".svg").read_text())
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [one for one in svg.iter() if one.tag.endswith("script")]
    assert main(["roofline", str(tmp_path / "run.json")]) == 2


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
    drawn = {mark.label.splitlines()[0]: mark for mark in roofline.chart(result).marks}
    assert not drawn[builders.MATMUL].doubtful
    assert drawn[builders.GEMV].doubtful
    assert drawn[builders.GEMV].label.endswith("\nnoisy, disturbed")
    text = page.render(result)
    assert text.count("in doubt") == 1, "the legend of the page: its picture has none"
    assert "Click a family to hide or show it" in text
    (tmp_path / "quiet").mkdir()
    alone = page.render(load(builders.write_json(tmp_path / "quiet/run.json", [quiet])))
    assert "in doubt" not in alone


def test_a_joint_peak_of_two_precisions_is_not_a_datasheet_line(tmp_path: Path) -> None:
    rows = [
        builders.row(f"{family}/dtype:{dtype}/n:1", 1.0) | {"FLOP/s": 1e12, "bytes/s": 1e9, "a100_flop_util": share}
        for family, dtype, share in (("one", "bf16", 1e12 / 312e12), ("two", "bf16_autocast", 1e12 / 287.2e12))
    ]
    result = load(builders.write_json(tmp_path / "run.json", rows))
    labels = [line.label for line in roofline.chart(result).lines if line.dashed]
    assert any("312 TFLOP/s" in label for label in labels)
    assert not any("autocast" in label or "287" in label for label in labels)
