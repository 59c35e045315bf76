# SPDX-License-Identifier: Apache-2.0
"""The roofline picture and its page: every case, real roofs, and text that stays text."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import builders
import pytest
from roofreport.cli import main
from roofreport.io.load import load
from roofreport.io.result import Result
from roofreport.render import chart, page, roofline


def _result(tmp_path: Path) -> Result:
    rows = builders.scaled(1.0)
    rows += [builders.row(name, 1.0) | {"FLOP/s": 1e9, "bytes/s": 1e9} for name in builders.HOSTILE]
    rows += [builders.error_row("huge/n:1", "skipped: out of memory: <b>80 GB</b>")]
    return load(builders.write_json(tmp_path / "run.json", rows, device="<i>CPU</i>"))


class _Reader(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "td" in self._open:
            self.cells[-1] += data


def _read(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    return reader


def test_every_case_is_a_row(tmp_path: Path) -> None:
    result = _result(tmp_path)
    reader = _read(page.render(result))
    for name in result.names():
        assert name in reader.cells
    assert any("OOM" in cell and "<b>80 GB</b>" in cell for cell in reader.cells)


def test_names_are_text(tmp_path: Path) -> None:
    html = page.render(_result(tmp_path))
    reader = _read(html)
    layout = {"html", "head", "meta", "title", "style", "script", "body", "h1", "h2", "p", "div", "span", "button"}
    tables = {"table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd"}
    pictures = {"svg", "g", "defs", "path", "use", "clippath", "rect", "text"}
    allowed = layout | tables | pictures
    assert {tag for tag, _ in reader.tags} <= allowed
    assert sum(tag == "script" for tag, _ in reader.tags) == 1
    for _, attributes in reader.tags:
        assert not any(name.startswith("on") or name in ("src", "href", "style", "action") for name in attributes)


def test_policy_lets_only_our_script_and_style_run(tmp_path: Path) -> None:
    html = page.render(_result(tmp_path))
    (policy,) = [
        attributes["content"] or ""
        for tag, attributes in _read(html).tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy and "http" not in policy
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_roofs(tmp_path: Path) -> None:
    result = _result(tmp_path)
    measured = roofline.measured_roofs(result)
    assert measured.memory == {"read": 5e10, "copy": 6e10}
    assert measured.compute == {"fp32": 5e11, "bf16": 1e12}
    (sheet,) = roofline.datasheet_roofs(result, roofline.cases_of(result))
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
    cases = roofline.cases_of(result)
    assert len(drawn.marks) == 2 + len(builders.HOSTILE)
    for mark in drawn.marks:
        case = cases[mark.index]
        assert mark.x == pytest.approx(case.flops / case.bytes)
        assert mark.y == pytest.approx(case.flops / case.seconds)
        assert 0 < drawn.x.place(mark.x) < 1
        assert 0 < drawn.y.place(mark.y) < 1


def test_clipping() -> None:
    x = y = chart.Range(1.0, 100.0)

    def clip(*points: tuple[float, float]) -> list[float]:
        return [value for point in chart.clipped(chart.Line(points), x, y) for value in point]

    assert clip((0.1, 0.1), (1000.0, 1000.0)) == pytest.approx([1, 1, 100, 100])
    assert clip((0.1, 500.0), (1000.0, 500.0)) == []
    assert clip((2.0, 5.0), (50.0, 5.0)) == pytest.approx([2, 5, 50, 5])


def test_files(tmp_path: Path) -> None:
    _result(tmp_path)
    out = tmp_path / "out"
    arguments = [f"--{kind}={out}.{kind}" for kind in ("html", "svg", "png")]
    assert main(["roofline", str(tmp_path / "run.json"), *arguments]) == 0
    svg = ET.fromstring(out.with_suffix(".svg").read_text())
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [one for one in svg.iter() if one.tag.endswith("script")]
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert main(["roofline", str(tmp_path / "run.json")]) == 2


def test_a_run_without_arithmetic_or_roofs_has_a_page(tmp_path: Path) -> None:
    path = builders.write_json(tmp_path / "a.json", [builders.row(builders.COPY, 9.0)])
    assert builders.COPY in page.render(load(path))
    builders.write_json(path, [builders.error_row("a/n:1", "skipped: no")])
    assert "skipped: no" in page.render(load(path))
    journal = tmp_path / "a.jsonl"
    journal.write_text(
        builders.journal_text(
            {
                "schema": "roofbench-journal-1",
                "context": {key: builders.CONTEXT[key] for key in ("roofbench_version", "device_kind", "device")},
            }
        )
    )
    assert "0 cases" in page.render(load(journal))


def test_the_page_is_there_at_once(tmp_path: Path) -> None:
    """tools/bench ends with it, so nothing heavy may creep into its imports."""
    _result(tmp_path)
    arguments = ["roofline", str(tmp_path / "run.json"), f"--html={tmp_path / 'page.html'}"]
    code = (
        f"import sys; from roofreport.cli import main; main({arguments!r});"
        "print([name for name in ('scipy', 'torch', 'bokeh') if name in sys.modules])"
    )
    tools = builders.ROOT / "tools"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tools)
    assert done.stdout.strip() == "[]"


def test_no_two_families_share_a_colour(tmp_path: Path) -> None:
    rows = [builders.row(f"family{number}/n:1", 1.0) | {"FLOP/s": 1e9, "bytes/s": 1e9} for number in range(40)]
    cases = roofline.cases_of(load(builders.write_json(tmp_path / "run.json", rows)))
    colors = roofline.family_colors(cases)
    assert len(set(colors.values())) == 40
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in colors.values())


def test_a_mark_in_doubt_is_hollow_and_says_why(tmp_path: Path) -> None:
    quiet = builders.row(builders.MATMUL, 10.0)
    noisy = builders.row(builders.GEMV, 1.0) | {"noisy": 1.0, "disturbed": 1.0}
    result = load(builders.write_json(tmp_path / "run.json", [quiet, noisy]))
    drawn = {mark.label.splitlines()[0]: mark for mark in roofline.chart(result).marks}
    assert not drawn[builders.MATMUL].doubtful
    assert drawn[builders.GEMV].doubtful
    assert drawn[builders.GEMV].label.endswith("\nnoisy, disturbed")
    text = page.render(result)
    assert text.count("noisy or disturbed") == 2, "the picture, and the legend of the page"
    assert "Click a family to hide or show it" in text
    (tmp_path / "quiet").mkdir()
    alone = page.render(load(builders.write_json(tmp_path / "quiet/run.json", [quiet])))
    assert "noisy or disturbed" not in alone


def test_a_joint_peak_of_two_precisions_is_no_line_of_a_datasheet(tmp_path: Path) -> None:
    rows = [
        builders.row(f"{family}/dtype:{dtype}/n:1", 1.0) | {"FLOP/s": 1e12, "bytes/s": 1e9, "a100_flop_util": share}
        for family, dtype, share in (("one", "bf16", 1e12 / 312e12), ("two", "bf16_autocast", 1e12 / 287.2e12))
    ]
    result = load(builders.write_json(tmp_path / "run.json", rows))
    labels = [line.label for line in roofline.chart(result).lines if line.dashed]
    assert any("312 TFLOP/s" in label for label in labels)
    assert not any("autocast" in label or "287" in label for label in labels)
