# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as transformers writes them pass the check in every precision, however sharp their weights are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from built_program import NO_ROOFS, Run

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_rounding_alone_fails_no_case(run: Run, tmp_path: Path, seed: int) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=1021,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2 + 2 * seed,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        initializer_range=0.2,  # ten times transformers' own: small errors grow from layer to layer
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path)
    done = run(
        f"--checkpoint={tmp_path}",
        "--benchmark_filter=^(generate|prefill|decode)/(impl:eager/)?model:checkpoint/precision:(fp32|bf16|int8|int4|llm_int8)/",
        "--axis=generate.model=checkpoint",
        "--axis=generate.prompt=8",
        "--axis=generate.new=4",
        "--axis=prefill.model=checkpoint",
        "--axis=prefill.prompt=16",
        "--axis=decode.model=checkpoint",
        "--axis=decode.depth=8",
        *(f"--axis={family}.kv_cache=default,int8" for family in ("generate", "prefill", "decode")),
        *(f"--axis={family}.parallel=none" for family in ("prefill", "decode")),
        *(f"--axis={family}.ranks=1" for family in ("prefill", "decode")),
        "--benchmark_min_time=1x",
        "--warmup_iters=0",
        *NO_ROOFS,
        "--threads=1",
        "--benchmark_format=json",
    )
    rows = json.loads(done.stdout)["benchmarks"]
    assert len(rows) > 10
    assert any(row["name"].startswith("decode/impl:eager/model:checkpoint/precision:bf16/") for row in rows)
    assert [row["error_message"] for row in rows if "error_message" in row] == []
    assert done.returncode == 0
