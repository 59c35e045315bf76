# SPDX-License-Identifier: Apache-2.0
"""torch.cuda._memory_viz opens our snapshots of memory, and their peak is the case's peak_mem."""

from __future__ import annotations

import base64
import json
import pickle
import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from built_program import PROGRAM, QUICKLY

pytestmark = pytest.mark.slow  # importing torch takes seconds

SIZES = ("size=small", "batch=1", "context=32", "d_model=64", "d_ff=128", "layers=2", "heads=2", "vocab=200")


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, float]]:
    """By precision, optimizer and pass: the pickle of a case, and its peak_mem."""
    folder = tmp_path_factory.mktemp("memory")
    flags = [f"--axis=train_step.{axis}" for axis in (*SIZES, "dtype=fp32,bf16_autocast", "pass=step,forward",
                                                      "optimizer=adamw,adamw_fused", "impl=eager", "attention=sdpa",
                                                      "warmup=auto", "parallel=none", "ranks=1")]  # fmt: skip
    out = folder / "out.json"
    command: list[str | Path] = [
        PROGRAM,
        "--suite=full",
        *QUICKLY,
        *flags,
        "--benchmark_filter=^train_step/",
        f"--memory_snapshot={folder}",
    ]
    subprocess.run([*command, f"--benchmark_out={out}"], check=True, capture_output=True, timeout=600)
    rows = {row["run_name"]: row for row in json.loads(out.read_text())["benchmarks"]}
    return {
        name: (folder / f"{name.replace('/', '+').replace(':', '=')}.pickle", row["peak_mem"])
        for name, row in rows.items()
    }


def reader() -> Any:
    """Torch's own module, which lacks type annotations."""
    return import_module("torch.cuda._memory_viz")


def shown(html: str) -> dict[str, Any]:
    """The snapshot inside of a page that memory_viz made."""
    found = re.search(r'"base64": "([^"]+)"', html)
    assert found
    snapshot = pickle.loads(base64.b64decode(found[1]))
    assert isinstance(snapshot, dict)
    return snapshot


def peak(snapshot: dict[str, Any]) -> int:
    """As memory_viz draws it: allocations and requests to free, on top of the memory allocated before."""
    (trace,) = snapshot["device_traces"]
    now: int = 0
    most: int = 0
    for event in trace:
        now += event["size"] if event["action"] == "alloc" else 0
        now -= event["size"] if event["action"] == "free_requested" else 0
        most = max(most, now)
    alive: int = sum(seg["allocated_size"] for seg in snapshot["segments"])
    return most + alive - now


def test_the_peak_is_that_of_the_case(snapshots: dict[str, tuple[Path, float]]) -> None:
    viz = reader()
    assert len(snapshots) == 8
    for name, (path, peak_mem) in snapshots.items():
        data = pickle.loads(path.read_bytes())
        assert peak(shown(viz.trace_plot(data))) == pytest.approx(peak_mem, rel=0.01), name
        assert peak(shown(viz.segment_plot(data))) == pytest.approx(peak_mem, rel=0.01), name


def test_its_reports_name_the_parts_of_the_model(snapshots: dict[str, tuple[Path, float]]) -> None:
    viz = reader()
    path, _ = next(value for name, value in snapshots.items() if "pass:" not in name)
    data = pickle.loads(path.read_bytes())
    assert "segments:" in viz.segsum(data)
    assert "TOTAL MEM" in viz.trace(data)
    stacks = viz.memory(data, format_flamegraph=lambda lines: lines)
    assert "roofbench:0:parameters;roofbench:0:aten::empty" in stacks
    sites = {event["frames"][-1]["name"] for event in data["device_traces"][0] if event["frames"]}
    assert {"forward", "backward", "optimizer"} <= sites
    names = {entry["name"] for entry in data["external_annotations"]}
    assert {"forward", "backward", "optimizer"} <= names <= {"forward", "backward", "optimizer", "end of step"}
