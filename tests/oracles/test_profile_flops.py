# SPDX-License-Identifier: Apache-2.0
"""A profile's operators do the work that torch.utils.flop_counter counts, and its self times make up the step."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from built_program import NO_ROOFS
from test_flop_counter import PROGRAM, SHAPE, counted_flops, training_flags

pytestmark = pytest.mark.slow  # importing torch takes seconds

SHORT = ("--suite=full", "--benchmark_min_time=1x", "--warmup_iters=1", *NO_ROOFS, "--check=off", "--threads=1")


def profiled(tmp_path: Path, *flags: str) -> dict[str, Any]:
    folder = tmp_path / "profiles"
    subprocess.run([PROGRAM, *SHORT, *flags, f"--profile={folder}"], check=True, capture_output=True, timeout=600)
    (found,) = [json.loads(path.read_text()) for path in folder.glob("*.json") if ".trace." not in path.name]
    assert isinstance(found, dict)
    return found


def test_products_of_a_training_step(tmp_path: Path) -> None:
    model = f"vocab:{SHAPE.vocab}/d_model:{SHAPE.d_model}/d_ff:{SHAPE.d_ff}/layers:{SHAPE.layers}/heads:{SHAPE.heads}"
    case = f"train_step/impl:eager/size:small/context:{SHAPE.context}/dtype:fp32/attention:naive/batch:2/{model}"
    profile = profiled(tmp_path, f"--benchmark_filter=^{case}/manual_time$", *training_flags())
    products = [row for row in profile["kernels"] if row["work"] == "product"]
    forward = [row for row in products if row["phase"] == "forward"]
    assert sum(row["flops"] for row in forward) == pytest.approx(counted_flops(SHAPE, "forward", naive=True))
    both = counted_flops(SHAPE, "forward_backward", naive=True)
    assert sum(row["flops"] for row in products) == pytest.approx(both)


def test_self_times_make_up_a_step(tmp_path: Path) -> None:
    """The model is large enough that the profiler's own time is negligible."""
    sizes = ("batch:1", "vocab:1000", "layers:2")
    flags = [f"--axis=train_step.{size.replace(':', '=')}" for size in sizes]
    case = f"train_step/impl:eager/size:small/context:128/dtype:fp32/{'/'.join(sizes)}"
    profile = profiled(tmp_path, f"--benchmark_filter=^{case}/manual_time$", *flags)
    assert 0.95 <= profile["covered"] <= 1
    # The profiler's step is the one that our stopwatch took.
    assert profile["profiled_ms"] == pytest.approx(profile["stopwatch_ms"], rel=0.01)
