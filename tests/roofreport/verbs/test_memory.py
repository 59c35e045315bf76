# SPDX-License-Identifier: Apache-2.0
"""Answers from snapshots of memory."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
from reports import Report
from roofreport.io.snapshot import load
from roofreport.render.memory import alive, curve

Entry = dict[str, Any]


def _stack(site: str) -> list[Entry]:
    return [{"name": name, "filename": "roofbench", "line": 0} for name in reversed(site.split("/"))]


def _alloc(address: int, size: int, site: str, category: str) -> Entry:
    return {"action": "alloc", "addr": address, "size": size, "frames": _stack(site), "category": category}


def _free(address: int, size: int) -> list[Entry]:
    return [
        {"action": f"free_{what}", "addr": address, "size": size, "frames": []} for what in ("requested", "completed")
    ]


def _snapshot(case: str = "step/d:1", **changes: Any) -> dict[str, Any]:
    """Two kilobytes of parameters, of which 1024 are older; activations; a gradient at whose side the peak is."""
    events = [
        _alloc(0x100, 1000, "parameters/aten::randn", "parameters"),
        _alloc(0x200, 600, "forward/block 0/aten::mm", "activations"),
        _alloc(0x300, 50, "forward/aten::gelu", "workspace"),
        *_free(0x300, 50),
        _alloc(0x400, 500, "backward/block 0/MmBackward0", "gradients"),
        *_free(0x200, 600),
        *_free(0x400, 500),
    ]
    phases = [
        {"name": "forward", "step": 0, "begin": 1, "end": 5},
        {"name": "backward", "step": 0, "begin": 5, "end": 10},
    ]
    segments = [
        {"device": 0, "address": address, "total_size": size, "stream": 0,
         "blocks": [{"size": size, "state": "active_allocated", "frames": []}]}
        for address, size in ((0x100, 1000), (0x900, 1024))
    ]  # fmt: skip
    return {
        "segments": segments,
        "device_traces": [events],
        "roofbench": {
            "version": 1,
            "case": case,
            "device": "cpu",
            "dropped": 0,
            "counters": {"peak_mem": 3124.0, "gradient_mem": 500.0, "activation_mem": 900.0},
            "phases": phases,
        },
    } | changes


def _write(path: Path, snapshot: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps(snapshot, protocol=2))
    return path


def _words(out: str, start: str) -> list[str]:
    (line,) = [line for line in out.splitlines() if line.strip().startswith(start)]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_peak_by_category(tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Mock(wraps=curve)
    monkeypatch.setattr("roofreport.render.memory.curve", drawn)
    _write(tmp_path / "m" / "a.pickle", _snapshot("step/d:1/dtype:fp32"))
    smaller = _snapshot("step/d:1/dtype:bf16")
    smaller["device_traces"][0][1]["size"] = 300
    _write(tmp_path / "m" / "b.pickle", smaller)
    out = report("memory", tmp_path / "m", "--rows=2")
    # Older, parameters, gradients, activations.
    peak = ["3.12 kB", "3.12 kB", "backward, step 1", "1.02 kB", "1 kB", "500 B", "600 B (900 B)"]
    assert _words(out, "step/dtype:fp32") == ["step/dtype:fp32", *peak, "-"]
    assert _words(out, "step/dtype:bf16")[1] == "2.82 kB"
    assert "in every case: d:1" in out
    tables = out.split("Alive at the peak of ")
    assert _words(tables[2], "1 kB") == ["1 kB", "1", "parameters", "parameters/aten::randn"]
    assert "… and 2 smaller ones (--rows)" in tables[2]
    assert drawn.call_count == 2, "each curve once"


def test_allocations_at_each_moment(tmp_path: Path) -> None:
    (snapshot,) = load(_write(tmp_path / "a.pickle", _snapshot()))
    drawn = curve(snapshot)
    totals = [sum(at) for at in zip(*drawn.layers, strict=True)]
    assert totals == [1024, 2024, 2624, 2674, 2624, 2624, 3124, 2524, 2524, 2024, 2024]
    assert drawn.peak_at == 6
    assert [each.site for each in alive(snapshot, 6)][1:] == [
        "parameters/aten::randn", "forward/block 0/aten::mm", "backward/block 0/MmBackward0"]  # fmt: skip


def test_a_time_line_is_one_safe_file(tmp_path: Path, report: Report) -> None:
    snapshot = _snapshot("<case>\x1b")
    snapshot["roofbench"]["phases"][0]["name"] = "<script>"
    path = _write(tmp_path / "m" / "a.pickle", snapshot)
    picture = tmp_path / "a.svg"
    assert "\x1b" not in report("memory", path, f"--svg={picture}")
    text = picture.read_text()
    assert "<script>" not in text and "http" not in text.replace("http://www.w3.org/", "")
    root = ElementTree.fromstring(text)
    titles = {title.text for title in root.iter("{http://www.w3.org/2000/svg}title")}
    assert {"parameters: 1 kB at most", "gradients: 500 B at most", "backward, step 1"} <= titles
    assert "peak 3.12 kB (backward, step 1)" in text
    report("memory", path, path, f"--svg={picture}", status=2)


def _shared(levels: int) -> list[Any]:
    """2^levels values in a few bytes each."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value, value]
    return value


def _endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class _Owned:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("owned",)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (_Owned(), "it asks for"),
        ([1, 2], "an entry is not a dict"),
        ({"device_traces": 3}, "no lists 'device_traces'"),
        ({"device_traces": [[{"action": 3}]]}, "no text 'action'"),
        ({"device_traces": [[{"action": "alloc", "addr": 1, "size": -5}]]}, "less than nothing"),
        (_snapshot(roofbench={"phases": [{"name": "x", "step": 0, "begin": 0, "end": 99}]}), "not there"),
        # A shared tuple as a key, whose hash takes 2^60 steps; and a place for a shared value that takes 8 GB in C.
        (b"\x80\x02})" + b"q\x00h\x00\x86" * 60 + b"K\x01s.", "a key that is not a text"),
        (b"\x80\x02Nr\xff\xff\xff\x3f.", "an entry is not a dict"),
        ({"device_traces": [[{"action": "alloc", "addr": 1, "size": 1 << 600}]]}, "more than 64 bits"),
        (b"\x80\x02L" + b"9" * 5000 + b"L\n.", "more than plain values (operation 'L')"),
        ({"device_traces": _shared(60)}, "repeats its values"),
        ({"device_traces": _endless()}, "contains itself"),
        (b"\x80\x02M\x00", "is not a memory snapshot"),
        (b"", "is not a memory snapshot"),
        (b"\x80\x02", "is not a memory snapshot"),
        (b"garbage", "is not a memory snapshot"),
        (b"\x80\x02}q\x00.", "is not a memory snapshot"),
        (b"\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", "is not a memory snapshot"),
    ],
)
def test_invalid_snapshots(
    content: Any, why: str, tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = _write(tmp_path / "a.pickle", content)
    if isinstance(content, bytes):
        path.write_bytes(content)
    assert why in report.refused("memory", path)
    assert not (tmp_path / "owned").exists(), "a pickle was run"


@pytest.mark.parametrize(("verb", "flag"), [("profile", "--profile"), ("memory", "--memory_snapshot")])
def test_an_empty_folder_and_a_pipe(verb: str, flag: str, tmp_path: Path, report: Report) -> None:
    assert f"{flag}=FOLDER writes them" in report.refused(verb, tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # which is not waited for
    assert "is a pipe" in report.refused(verb, pipe)
