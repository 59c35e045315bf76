# SPDX-License-Identifier: Apache-2.0
"""--nvtx, read by a stand-in for a profiler: which ranges, in which order, one inside the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from built_program import NO_ROOFS, PROGRAM, Run

PROFILER = PROGRAM.parents[1] / "tests" / "libfake_profiler.so"
STEP = (
    "--benchmark_filter=^train_step/impl:{impl}/size:small/context:16/dtype:fp32/",
    "--axis=train_step.impl={impl}",
    "--axis=train_step.pass=step",
    "--axis=train_step.attention={attention}",
    "--axis=train_step.context=16",
    *(f"--axis=train_step.{axis}" for axis in ("d_model=16", "d_ff=32", "layers=2", "heads=2", "vocab=50")),
    "--benchmark_min_time=2x",
    "--warmup_iters=1",
    *NO_ROOFS,
)


def step_flags(impl: str, attention: str) -> list[str]:
    return [flag.format(impl=impl, attention=attention) for flag in STEP]


Ranges = list[tuple[str, Any]]  # [(name, Ranges inside it)]


def models(ranges: Ranges) -> Ranges:
    """Without those of single kernels."""
    return [(name, models(inside)) for name, inside in ranges if not name.startswith("roofbench::")]


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


@pytest.mark.skipif(not PROFILER.exists(), reason="built without NVTX headers")
@pytest.mark.parametrize(("impl", "attention"), [("eager", "naive"), ("native", "sdpa")])
def test_ranges_of_a_training_step(run: Run, tmp_path: Path, impl: str, attention: str) -> None:
    seen = tmp_path / "ranges"
    flags = step_flags(impl, attention)
    done = run(*flags, "--nvtx", NVTX_INJECTION64_PATH=str(PROFILER), ROOFBENCH_FAKE_PROFILER_OUT=str(seen))
    assert done.returncode == 0, done.stdout + done.stderr
    everything = nested(seen.read_text().splitlines())
    assert ("roofbench::" in str(everything)) == (impl == "native")
    ranges = models(everything)
    # Our own attention is one kernel.
    attend: Ranges = [] if impl == "native" else [("scores", []), ("softmax", []), ("weighted sum", [])]
    blocks: Ranges = [(f"block {i}", [("attention", attend), ("feed forward", [])]) for i in range(2)]
    forward: Ranges = [("embedding", []), *blocks, ("head", []), ("loss", [])]
    inside: Ranges = [("forward", forward), ("backward", []), ("optimizer", [("zero_grad", [])])]
    (case, sampling) = ranges[-1]
    assert case.startswith(f"train_step/impl:{impl}/size:small/context:16/")
    (warm_up, warm_up_steps), (measure, steps) = sampling[-2:]
    assert (warm_up, warm_up_steps) == ("warm-up", [("step 1", inside)])
    # Two samples, each of as many steps as the clock needs.
    assert measure == "measure"
    assert len(steps) >= 2
    assert steps == [(f"step {number}", inside) for number in range(2, 2 + len(steps))]


def parts(*names: str, inside: Ranges | None = None) -> Ranges:
    return [(name, inside or []) for name in names]


# The ranges of LibTorch's decoder, and of the native one, whose blocks hold no ranges but those of its kernels.
EAGER = [*parts("embedding"), *parts("block 0", "block 1", inside=parts("attention", "feed forward")), *parts("head")]
NATIVE = parts("block 0", "block 1")
TINY = ("model=tiny_llama", "precision=bf16", "batch=1")


@pytest.mark.skipif(not PROFILER.exists(), reason="built without NVTX headers")
@pytest.mark.parametrize(
    ("family", "axes", "expected"),
    [
        ("mlp", ("dtype=fp32", "layers=1", "batch=4", "d=8", "steps=1"), parts("zero_grad", "forward", "backward")),
        ("attention", ("impl=naive", "dtype=fp32", "heads=2", "kv_heads=heads", "keys=8", "d=8", "pass=forward"),
         parts("scores", "softmax", "weighted_sum")),
        ("attention", ("impl=naive", "dtype=fp32", "heads=2", "kv_heads=heads", "keys=8", "d=8", "pass=backward"),
         parts("weighted_sum", "softmax", "scores")),
        ("prefill", ("impl=eager", "prompt=4", *TINY), parts("prefill", inside=EAGER)),
        ("decode", ("impl=native", "depth=4", *TINY), parts("decode", inside=NATIVE)),
        ("generate", ("impl=native", "prompt=4", "new=3", *TINY),
         [*parts("prefill", inside=EAGER), *parts("decode", inside=2 * NATIVE)]),
    ],
)  # fmt: skip
def test_ranges_of_other_models(run: Run, tmp_path: Path, family: str, axes: tuple[str, ...], expected: Ranges) -> None:
    seen = tmp_path / "ranges"
    flags = [f"--benchmark_filter=^{family}/", "--suite=full", "--benchmark_min_time=2x", "--warmup_iters=1"]
    done = run(*flags, *(f"--axis={family}.{axis}" for axis in axes), *NO_ROOFS, "--nvtx",
               NVTX_INJECTION64_PATH=str(PROFILER), ROOFBENCH_FAKE_PROFILER_OUT=str(seen))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (case, sampling) = nested(seen.read_text().splitlines())[-1]
    assert case.startswith(f"{family}/")
    (warm_up, warm_up_steps), (measure, steps) = sampling[-2:]
    assert (warm_up, measure) == ("warm-up", "measure")
    # Steps are numbered from the first one of the case to its last.
    numbered = [*warm_up_steps, *steps]
    assert [name for name, _ in numbered] == [f"step {number}" for number in range(1, 1 + len(numbered))]
    assert len(steps) >= 2
    assert [models(inside) for _, inside in numbered] == [expected] * len(numbered)


@pytest.mark.skipif(not PROFILER.exists(), reason="built without NVTX headers")
def test_no_range_without_the_flag(run: Run, tmp_path: Path) -> None:
    seen = tmp_path / "ranges"
    done = run(
        *step_flags("native", "sdpa"), NVTX_INJECTION64_PATH=str(PROFILER), ROOFBENCH_FAKE_PROFILER_OUT=str(seen)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not seen.exists()


@pytest.mark.skipif(PROFILER.exists(), reason="built with NVTX headers")
def test_refused_without_the_headers(run: Run) -> None:
    done = run("--nvtx")
    assert done.returncode == 2
    assert "nvtx3/nvToolsExt.h" in done.stderr
