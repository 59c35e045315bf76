# SPDX-License-Identifier: Apache-2.0
"""What attention holds in memory, by its formulas and as it is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from built_program import Run

IMPLS = ("naive", "sdpa", "native")
PASSES = ("forward", "backward", "forward_backward")


@pytest.mark.parametrize("kv_heads", [4, 1])
def test_memory_of_attention_is_predicted(run: Run, tmp_path: Path, kv_heads: int) -> None:
    out = tmp_path / "out.json"
    done = run(
        r"--benchmark_filter=^attention/impl:(naive|sdpa|native)/(pass:\w+/)?dtype:(bf16|fp32)/heads:4/",
        "--suite=standard",
        "--axis=attention.pass=forward,backward,forward_backward",
        *("--axis=attention.heads=4", f"--axis=attention.kv_heads={kv_heads}", "--axis=attention.d=64"),
        *("--axis=attention.keys=512", "--axis=attention.backend=auto"),
        *("--check=off", "--roof_share=0", "--warmup_iters=0", "--benchmark_min_time=1x", f"--benchmark_out={out}"),
    )
    assert done.returncode == 0, done.stderr
    cases = json.loads(out.read_text())["benchmarks"]
    assert len(cases) == len(IMPLS) * len(PASSES) * 2
    for case in cases:
        assert case["predicted_mem"] == pytest.approx(case["peak_mem"], rel=0.1), case["name"]
