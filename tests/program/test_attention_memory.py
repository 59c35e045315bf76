# SPDX-License-Identifier: Apache-2.0
"""Attention's memory as its formulas predict it and as it is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from built_program import NO_ROOFS, Run

IMPLS = ("naive", "sdpa", "native")
PASSES = ("forward", "backward", "forward_backward")
KV_HEADS = (4, 1)


def test_memory_of_attention_is_predicted(run: Run, tmp_path: Path) -> None:
    """At 512 keys the scores outweigh all other operands: a formula in the wrong power of the keys is far off.

    The cache is warm: copies for a cold one would be gigabytes on a processor with a large last-level cache.
    """
    out = tmp_path / "out.json"
    done = run(
        r"--benchmark_filter=^attention/impl:(naive|sdpa|native)/(pass:\w+/)?dtype:(bf16|fp32)/heads:4/",
        "--suite=standard",
        "--axis=attention.pass=" + ",".join(PASSES),
        *("--axis=attention.heads=4", "--axis=attention.kv_heads=" + ",".join(map(str, KV_HEADS))),
        *("--axis=attention.d=64", "--axis=attention.keys=512", "--axis=attention.backend=auto", "--axis=cache=warm"),
        *("--check=off", "--warmup_iters=0", "--benchmark_min_time=1x", *NO_ROOFS, f"--benchmark_out={out}"),
    )
    assert done.returncode == 0, done.stderr
    cases = json.loads(out.read_text())["benchmarks"]
    assert len(cases) == len(IMPLS) * len(PASSES) * len(KV_HEADS) * 2
    for case in cases:
        if "/impl:sdpa/" in case["name"]:
            # LibTorch chooses its kernel by the processor and the shape.
            assert 0 < case["peak_mem"] <= 1.1 * case["predicted_mem"], case["name"]
        else:
            assert case["peak_mem"] == pytest.approx(case["predicted_mem"], rel=0.1), case["name"]
