# SPDX-License-Identifier: Apache-2.0
"""--nvtx, read by a stand-in for a profiler: which ranges, in which order, one inside the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from built_program import BIN, NO_ROOFS, Run

pytestmark = pytest.mark.slow  # each test is a run of its own

PROFILER = BIN.parent / "tests" / "libfake_profiler.so"
needs_headers = pytest.mark.skipif(not PROFILER.exists(), reason="built without NVTX headers")
Ranges = list[tuple[str, Any]]  # [(name, Ranges inside it)]


def recorded(run: Run, folder: Path, family: str, axes: tuple[str, ...], *flags: str) -> list[str]:
    """The view of a profiler: "+" and the name of a range where it begins, another line where it ends."""
    seen = folder / "ranges"
    chosen = (f"--benchmark_filter=^{family}/", "--suite=full", *(f"--axis={family}.{axis}" for axis in axes))
    numbers = ("--benchmark_min_time=2x", "--warmup_iters=1", "--threads=1", *NO_ROOFS)
    profiler = {"NVTX_INJECTION64_PATH": str(PROFILER), "ROOFBENCH_FAKE_PROFILER_OUT": str(seen)}
    done = run(*chosen, *numbers, *flags, **profiler)
    assert done.returncode == 0, done.stdout + done.stderr
    return seen.read_text().splitlines() if seen.exists() else []


def nested(lines: list[str]) -> Ranges:
    stack: list[Ranges] = [[]]
    for line in lines:
        if line.startswith("+"):
            inside: Ranges = []
            stack[-1].append((line[1:], inside))
            stack.append(inside)
        else:
            assert len(stack) > 1, "a range ends that never began"
            stack.pop()
    assert len(stack) == 1, "a range never ended"
    return stack[0]


def models(ranges: Ranges) -> Ranges:
    """Without those of single kernels."""
    return [(name, models(inside)) for name, inside in ranges if not name.startswith("roofbench::")]


def parts(*names: str, inside: Ranges | None = None) -> Ranges:
    return [(name, inside or []) for name in names]


SIZES = ("d_model=16", "d_ff=32", "layers=2", "heads=2", "vocab=50")
ALONE = ("parallel=none", "ranks=1")
MLP = ("dtype=fp32", "layers=1", "batch=4", "d=8", "steps=1")
STEP = (*ALONE, "size=small", "context=16", "dtype=fp32", "pass=step", *SIZES)
ATTENTION = parts("scores", "softmax", "weighted sum")


def training(attention: Ranges) -> Ranges:
    blocks: Ranges = [(f"block {i}", [("attention", attention), ("feed forward", [])]) for i in range(2)]
    forward = [*parts("embedding"), *blocks, *parts("head", "loss")]
    return [("forward", forward), ("backward", []), ("optimizer", parts("zero_grad"))]


# The ranges of LibTorch's decoder, and of the native one, whose blocks hold no ranges but those of its kernels.
EAGER = [*parts("embedding"), *parts("block 0", "block 1", inside=parts("attention", "feed forward")), *parts("head")]
NATIVE = parts("block 0", "block 1")
TINY = ("model=tiny_llama", "precision=bf16", "batch=1")
HEADS = ("impl=naive", "dtype=fp32", "heads=2", "kv_heads=heads", "keys=8", "d=8")


@needs_headers
@pytest.mark.parametrize(
    ("family", "axes", "expected"),
    [
        ("train_step", ("impl=eager", "attention=naive", *STEP), training(ATTENTION)),
        # Our own attention is one kernel.
        ("train_step", ("impl=native", "attention=sdpa", *STEP), training([])),
        ("mlp", (*ALONE, "impl=eager", *MLP), parts("zero_grad", "forward", "backward")),
        ("mlp", (*ALONE, "impl=native", *MLP), parts("zero_grad", "forward", "backward")),
        ("attention", (*HEADS, "pass=forward"), parts("scores", "softmax", "weighted_sum")),
        ("attention", (*HEADS, "pass=backward"), parts("weighted_sum", "softmax", "scores")),
        ("prefill", (*ALONE, "impl=eager", "prompt=4", *TINY), parts("prefill", inside=EAGER)),
        ("decode", (*ALONE, "impl=native", "depth=4", *TINY), parts("decode", inside=NATIVE)),
        ("generate", ("impl=native", "prompt=4", "new=3", *TINY),
         [*parts("prefill", inside=EAGER), *parts("decode", inside=2 * NATIVE)]),
    ],
)  # fmt: skip
def test_ranges_of_models(run: Run, tmp_path: Path, family: str, axes: tuple[str, ...], expected: Ranges) -> None:
    (case, sampling) = nested(recorded(run, tmp_path, family, axes, "--nvtx"))[-1]
    assert case.startswith(f"{family}/")
    (warm_up, warm_up_steps), (measure, steps) = [one for one in sampling if one[0] != "check"][-2:]
    assert (warm_up, measure) == ("warm-up", "measure")
    # Steps are numbered from the first one of the case to its last.
    numbered = [*warm_up_steps, *steps]
    assert [name for name, _ in numbered] == [f"step {number}" for number in range(1, 1 + len(numbered))]
    assert len(steps) >= 2
    assert [models(inside) for _, inside in numbered] == [expected] * len(numbered)
    if family == "train_step":
        assert ("roofbench::" in str(sampling)) == ("impl=native" in axes)


@needs_headers
def test_no_range_without_the_flag(run: Run, tmp_path: Path) -> None:
    assert recorded(run, tmp_path, "decode", (*ALONE, "impl=native", "depth=4", *TINY)) == []


@pytest.mark.skipif(PROFILER.exists(), reason="built with NVTX headers")
def test_refused_without_the_headers(run: Run) -> None:
    done = run("--nvtx")
    assert done.returncode == 2
    assert "nvtx3/nvToolsExt.h" in done.stderr
