# SPDX-License-Identifier: Apache-2.0
"""Answers from profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from reports import Report

_STEP = ("", 1, 100.0, 0.0)
_PARTS = (
    _STEP,
    ("forward", 1, 30.0, 0.0),
    ("forward/block 0", 1, 25.0, 0.0),
    ("forward/block 0/scores", 1, 6.0, 3000.0),
    ("forward/block 0/softmax", 1, 3.0, 60.0),
    ("forward/block 0/weighted sum", 1, 3.0, 3000.0),
    ("backward", 1, 70.0, 0.0),
)
_KERNELS = (
    ("aten::mm", "forward", "product", 4, 10.0),
    ("aten::mul", "forward", "other", 8, 15.0),
    ("aten::_softmax", "forward", "softmax", 2, 5.0),
    ("aten::mm", "backward", "product", 8, 60.0),
    ("aten::copy_", "backward", "other", 3, 9.5),
    ("aten::view", "backward", "other", 9, 0.5),
)


def _part(path: str, calls: int, ms: float, flops: float) -> dict[str, Any]:
    return {"path": path, "calls": calls, "total_ms": ms, "total_device_ms": 0.0, "flops": flops, "share": ms / 100}


def _profile(case: str = "step/d:1", **changes: Any) -> dict[str, Any]:
    kernels = [
        {"name": name, "phase": phase, "work": work, "calls": calls, "total_ms": ms, "flops": 0.0, "share": ms / 100}
        for name, phase, work, calls, ms in _KERNELS
    ]
    modules = [_part(*part) for part in _PARTS]
    return {
        "roofbench_profile": 1,
        "case": case,
        "device": "cpu",
        "timed_ms": 90.0,
        "stopwatch_ms": 102.0,
        "profiled_ms": 100.0,
        "device_ms": 0.0,
        "covered": 0.99,
        "phases": [{"name": "forward", "timed_ms": 25.0, "stopwatch_ms": 29.0}],
        "kernels": kernels,
        "modules": modules,
    } | changes


def _write(path: Path, profile: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(profile))
    return path


def _sections(report: Report, *arguments: object) -> dict[str, list[list[str]]]:
    """Rows by the first word after "The" of a title, cut where columns are."""
    found: dict[str, list[list[str]]] = {}
    for section in report("profile", *arguments).split("\n\n"):
        title, *lines = section.splitlines()
        found[title] = [[cell for cell in line.split("  ") if cell.strip()] for line in lines]
    return {title: [[cell.strip() for cell in row] for row in rows] for title, rows in found.items()}


def _row(rows: list[list[str]], *names: str) -> list[str]:
    return next(row for row in rows if all(name in row for name in names))


def test_the_five_questions(tmp_path: Path, report: Report) -> None:
    _write(tmp_path / "p" / "a.json", _profile())
    (tmp_path / "p" / "a.trace.json").write_text("{}")
    found = _sections(report, tmp_path / "p")
    agreement = found["The profiler against the stopwatch"]
    assert _row(agreement, "step")[-6:] == ["100 ms", "102 ms", "-2.0 %", "yes", "90 ms", "+11.1 %"]
    assert _row(agreement, "forward")[-6:] == ["30 ms", "29 ms", "+3.4 %", "-", "25 ms", "+20.0 %"]
    leaders = found["The kernel with most time"]
    assert _row(leaders, "forward")[1:] == ["forward", "aten::mul", "8", "15 ms", "50.0 %"]
    assert _row(leaders, "forward + backward") == ["forward + backward", "aten::mm", "12", "70 ms", "70.0 %", "another"]
    others = [row[-4] for row in found["Kernels besides matrix products, from 1% of the kernels' time"][2:-1]]
    assert others == ["aten::mul", "aten::copy_", "aten::_softmax"]
    products = found["The share of matrix products"]
    assert _row(products, "forward")[-4:] == ["33.3 %", "0.0 %", "16.7 %", "50.0 %"]
    assert _row(products, "step")[-4:] == ["70.0 %", "0.0 %", "5.0 %", "25.0 %"]
    attention = found["Softmax against the products of attention"]
    assert _row(attention, "forward")[-4:] == ["3 ms", "9 ms", "1/3", "1/100"]


def test_an_attention_alone_has_its_stages_as_phases(tmp_path: Path, report: Report) -> None:
    stages = (_STEP, ("scores", 1, 40.0, 300.0), ("softmax", 1, 20.0, 100.0), ("weighted_sum", 1, 40.0, 300.0))
    modules = [_part(*stage) for stage in stages]
    path = _write(tmp_path / "p" / "a.json", _profile(modules=modules, phases=[]))
    attention = _sections(report, path)["Softmax against the products of attention"]
    assert [row[1:] for row in attention[2:]] == [["step", "20 ms", "80 ms", "1/4", "1/6"]]


@pytest.mark.parametrize(("stopwatch", "agree"), [(95.3, "-"), (105.2, "yes"), (105.3, "no"), (191.0, "no")])
def test_a_profiler_that_disagrees_is_seen(stopwatch: float, agree: str, tmp_path: Path, report: Report) -> None:
    path = _write(tmp_path / "p" / "a.json", _profile(stopwatch_ms=stopwatch, phases=[]))
    assert _row(_sections(report, path)["The profiler against the stopwatch"], "step")[-3] == agree


def test_two_stand_side_by_side(tmp_path: Path, report: Report) -> None:
    faster = _profile("step/d:2", profiled_ms=60.0)
    faster["kernels"][3]["total_ms"] = 20.0
    old = _write(tmp_path / "old" / "a.json", _profile())
    new = _write(tmp_path / "new" / "b.json", faster)
    out = report("profile", old, new, "--rows=1")
    (line,) = [line for line in out.splitlines() if line.startswith("  aten::mm ") and "30 ms" in line]
    assert line.split()[1:] == ["70", "ms", "30", "ms", "-57.1", "%", "-40.0", "%"]
    assert "… and 4 more (--rows)" in out


def test_a_flame_graph_is_one_safe_file(tmp_path: Path, report: Report) -> None:
    parts = _profile()["modules"]
    parts[2]["path"] = "forward/<script>&\x07"
    path = _write(tmp_path / "p" / "a.json", _profile("<case>", modules=parts))
    picture = tmp_path / "a.svg"
    report("profile", path, f"--flame={picture}")
    text = picture.read_text()
    assert "<script>" not in text and "http" not in text.replace("http://www.w3.org/", "")
    root = ElementTree.fromstring(text)
    titles = {one.text for one in root.iter() if one.tag.endswith("}title")}
    assert {"step: 100 ms, 100.0 %", "forward: 30 ms, 30.0 %"} <= titles
    report("profile", path, path, f"--flame={picture}", status=2)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"roofbench_profile": 2}, "is not a profile of a case"),
        ({"kernels": [{}]}, "no text 'name'"),
        ({"profiled_ms": -1}, "no number 'profiled_ms'"),
        ({"modules": []}, "parts of it, each once"),
        ({"modules": _profile()["modules"][:1] * 2}, "parts of it, each once"),
    ],
)
def test_invalid_profiles(change: dict[str, Any], why: str, tmp_path: Path, report: Report) -> None:
    path = _write(tmp_path / "p" / "a.json", _profile(**change))
    assert why in report.refused("profile", path)
