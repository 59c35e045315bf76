# SPDX-License-Identifier: Apache-2.0
"""Our decoder's logits match transformers, for checkpoints that transformers wrote from random configurations and for
checkpoints in 4 bits. (test_complete.py compares tokens.)"""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import packed_models
import pytest
import tiny_models
import torch
import transformers
from built_program import BIN
from packed_models import Packed
from tiny_models import DYNAMIC, MODELS, STRETCHED

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds

Logits = npt.NDArray[np.float32]
IMPLEMENTATIONS = ("eager", "native")


def ours(folder: Path, tokens: torch.Tensor, runs: list[str]) -> dict[str, Logits]:
    """Logits of a prompt's last token and of each token after it, by IMPL:PRECISION:PROMPT."""
    sequences = ";".join(",".join(str(i) for i in row) for row in tokens.tolist())
    out = folder / "logits"
    done = subprocess.run(
        [BIN / "decoder_logits", folder, sequences, out, *runs], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    steps = [tokens.shape[1] - int(run.rpartition(":")[2]) + 1 for run in runs]
    flat = np.fromfile(out, np.float32).reshape(sum(steps), tokens.shape[0], -1)
    return dict(zip(runs, np.split(flat, np.cumsum(steps)[:-1]), strict=True))


def expected(model: Any, tokens: torch.Tensor, prompt: int) -> Logits:
    """With the tokens after the prompt one by one where that matters: where positions turn by the length of a text."""
    steps = [tokens]
    if model.config.rope_parameters.get("rope_type") in ("dynamic", "longrope"):
        steps = [tokens[:, :prompt], *(tokens[:, i : i + 1] for i in range(prompt, tokens.shape[1]))]
    cache = transformers.DynamicCache()
    with torch.no_grad():
        found = torch.cat([model(step, past_key_values=cache).logits.float() for step in steps], 1)
    return np.asarray(found[:, prompt - 1 :].transpose(0, 1).numpy(), np.float32)


def distance(found: Logits, exact: Logits) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2)))


def assert_close(found: Logits, exact: Logits) -> None:
    np.testing.assert_allclose(found, exact, rtol=2e-4, atol=2e-4)


# Changes of config.json that transformers and our decoder both support.
SPELLINGS: list[tuple[str, dict[str, Any]]] = [
    ("llama2", {"hidden_act": "swish"}),
    ("llama2", {"partial_rotary_factor": 1.0}),
    # A checkpoint that gives its number of positions, which is the default for the original number.
    (
        "llama2",
        {
            "max_position_embeddings": 32,
            "rope_parameters": None,
            "rope_scaling": {key: value for key, value in STRETCHED.items() if not key.startswith("original")},
        },
    ),
    ("llama2", {"rope_parameters": STRETCHED, "original_max_position_embeddings": 8}),
    ("llama2", {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_parameters": None}),
    # The prompt of 17 tokens is longer than the original positions, or later tokens are.
    *(
        ("llama2", {"max_position_embeddings": original, "rope_parameters": {**DYNAMIC, "rope_theta": 500.0}})
        for original in (12, 32)
    ),
    *(("phi3", {"original_max_position_embeddings": original}) for original in (12, 32)),
    *(
        ("qwen3", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 500.0, "factor": 8.0, **more}})
        for more in (
            {"original_max_position_embeddings": 16, "truncate": False, "beta_fast": 4, "beta_slow": 0.5},
            {"attention_factor": 0.7},
            {"original_max_position_embeddings": 64, "mscale": 0.7, "mscale_all_dim": 1.3},
        )
    ),
    ("phi3", {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}, "sliding_window": 9}),
    ("qwen2", {"attention_bias": True}),
    *(
        ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": layers, "layer_types": None})
        for layers in (2, 0, 1)
    ),
    (
        "qwen3",
        {"use_sliding_window": True, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    ("qwen3", {"use_sliding_window": True, "sliding_window": 5, "layer_types": ["sliding_attention"] * 2}),
    ("gemma2", {"attn_logit_softcapping": None}),
    ("gemma2", {"final_logit_softcapping": None}),
    ("gemma2", {"layer_types": ["full_attention", "sliding_attention"]}),
    ("gemma2", {"hidden_act": "silu", "sliding_window_size": 5, "query_pre_attn_scalar": 20}),
]


@pytest.mark.parametrize(("name", "changes"), SPELLINGS)
def test_equivalent_configurations(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    plain = tiny_models.plain(name)
    plain.save_pretrained(tmp_path)
    text = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(text | changes))
    model = type(plain).from_pretrained(tmp_path).eval()
    tokens = torch.randint(96, (1, 48), generator=torch.Generator().manual_seed(1))
    exact = expected(model, tokens, 17)
    for found in ours(tmp_path, tokens, [f"{impl}:fp32:17" for impl in IMPLEMENTATIONS]).values():
        assert_close(found, exact)


@pytest.mark.parametrize("name", MODELS)
def test_logits_of_prefill_and_of_every_decode_step(name: str, tmp_path: Path) -> None:
    """fp32 is equal. bf16, and fp16 between linear layers in 8 bits, stray no further from transformers' fp32 than one
    and a half times as far as transformers' own."""
    model = tiny_models.write(name, tmp_path)
    tokens = torch.randint(96, (3, 48), generator=torch.Generator().manual_seed(1))
    exactly = [f"{impl}:fp32:{prompt}" for impl in IMPLEMENTATIONS for prompt in (1, 17)]
    rounding = [*(f"{impl}:bf16:8" for impl in IMPLEMENTATIONS), "eager:int8/fp16:8"]
    # Where two experts are nearly equal, rounding decides which one a token takes.
    found = ours(tmp_path, tokens, exactly + (rounding if name != "mixtral" else []))
    for run in exactly:
        assert_close(found.pop(run), expected(model, tokens, int(run.rpartition(":")[2])))
    if not found:
        return
    exact = expected(model, tokens, 8)
    rounded = type(model).from_pretrained(tmp_path, dtype=torch.bfloat16)
    theirs = distance(expected(rounded, tokens, 8), exact)
    assert theirs < 0.1 * np.sqrt(np.mean(exact**2))
    for run in rounding[:-1]:
        assert distance(found[run], exact) <= 1.5 * theirs, run

    stored = copy.deepcopy(model)
    for module in stored.modules():
        if isinstance(module, torch.nn.Linear):
            scale = module.weight.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127.5  # a row of padding is zero
            module.weight = torch.nn.Parameter((module.weight / scale).round().clamp(-128, 127) * scale)
    exact = expected(stored, tokens, 8)
    theirs = distance(expected(stored.half(), tokens, 8), exact)
    assert theirs < 0.02 * np.sqrt(np.mean(exact**2))
    assert distance(found[rounding[-1]], exact) <= 1.5 * theirs


PACKED = {
    "gptq": ("grouped", Packed("gptq")),
    "gptq_symmetric_rows": ("llama3_tied", Packed("gptq", group=-1, symmetric=True)),
    "gptq_v2": ("qwen2", Packed("gptq", version=2)),
    "awq": ("qwen3", Packed("awq")),
}


@pytest.mark.parametrize("kind", PACKED)
def test_checkpoints_in_4_bits(kind: str, tmp_path: Path) -> None:
    """As transformers computes with the decoded weights: in fp32 equal, in int4 within what its bf16 strays. Codes are
    read as they are stored, with scales in bf16: that rounds nothing that transformers in bf16 does not."""
    name, packed = PACKED[kind]
    model = packed_models.write(name, packed, tmp_path)
    tokens = torch.randint(96, (2, 40), generator=torch.Generator().manual_seed(1))
    runs = [f"{impl}:{precision}:17" for impl in IMPLEMENTATIONS for precision in ("fp32", "int4")]
    found = ours(tmp_path, tokens, runs)
    exact = expected(model, tokens, 17)
    rounded = type(model)(model.config).bfloat16().eval()
    rounded.load_state_dict(model.state_dict())
    theirs = distance(expected(rounded, tokens, 17), exact)
    assert theirs < 0.1 * np.sqrt(np.mean(exact**2))
    for impl in IMPLEMENTATIONS:
        assert_close(found[f"{impl}:fp32:17"], exact)
        assert distance(found[f"{impl}:int4:17"], exact) <= 1.5 * theirs
