# SPDX-License-Identifier: Apache-2.0
"""Our decoder matches transformers, for checkpoints that transformers wrote from random configurations."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tiny_models
import torch
from tiny_models import MODELS, SMALL, STRETCHED

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "bin" / "decoder_logits"

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds


@pytest.fixture(scope="module", params=list(MODELS))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp(request.param)
    return folder, tiny_models.write(request.param, folder)


def ours(
    folder: Path, tokens: torch.Tensor, prompt: int, out: str, impl: str = "eager", precision: str = "fp32"
) -> subprocess.CompletedProcess[str]:
    sequences = ";".join(",".join(str(i) for i in row) for row in tokens.tolist())
    command = [str(PROGRAM), str(folder), impl, precision, "32", sequences, str(prompt), out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done


def logits(
    folder: Path, tokens: torch.Tensor, prompt: int, tmp_path: Path, impl: str, precision: str
) -> npt.NDArray[np.float32]:
    out = tmp_path / "logits"
    ours(folder, tokens, prompt, str(out), impl, precision)
    flat = np.fromfile(out, np.float32)
    return flat.reshape(tokens.shape[1] - prompt + 1, tokens.shape[0], -1)


def expected(model: Any, tokens: torch.Tensor, prompt: int) -> npt.NDArray[np.float32]:
    with torch.no_grad():
        found = model(tokens).logits.float()
    return np.asarray(found[:, prompt - 1 :].transpose(0, 1).numpy(), np.float32)


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
    ("qwen2", {"attention_bias": True}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2, "layer_types": None}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0, "layer_types": None}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1, "layer_types": None}),
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
def test_configurations_in_other_words(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    config, model_class, sizes = MODELS[name]
    torch.manual_seed(0)
    model_class(config(**(SMALL | sizes), initializer_range=0.2, max_position_embeddings=512)).save_pretrained(tmp_path)
    text = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(text | changes))
    model = model_class.from_pretrained(tmp_path).eval()
    tokens = torch.randint(96, (1, 48), generator=torch.Generator().manual_seed(1))
    found = logits(tmp_path, tokens, 17, tmp_path, "eager", "fp32")
    np.testing.assert_allclose(found, expected(model, tokens, 17), rtol=2e-4, atol=2e-4)


IMPLEMENTATIONS = ("eager", "native")


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_logits_of_prefill_and_of_every_decode_step(checkpoint: tuple[Path, Any], tmp_path: Path, impl: str) -> None:
    folder, model = checkpoint
    tokens = torch.randint(96, (3, 48), generator=torch.Generator().manual_seed(1))
    for prompt in (1, 17):
        found = logits(folder, tokens, prompt, tmp_path, impl, "fp32")
        np.testing.assert_allclose(found, expected(model, tokens, prompt), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_bf16_stays_within_a_bound(checkpoint: tuple[Path, Any], tmp_path: Path, impl: str) -> None:
    """Our bf16 strays no further from transformers' fp32 than one and a half times as far as transformers' own bf16."""
    folder, model = checkpoint
    if model.config.model_type == "mixtral":
        pytest.skip("where two experts are nearly equal, rounding decides which one a token takes")
    tokens = torch.randint(96, (3, 32), generator=torch.Generator().manual_seed(2))
    exact = expected(model, tokens, 8)
    rounded = type(model).from_pretrained(folder, dtype=torch.bfloat16)
    theirs = np.sqrt(np.mean((expected(rounded, tokens, 8) - exact) ** 2))
    found = np.sqrt(np.mean((logits(folder, tokens, 8, tmp_path, impl, "bf16") - exact) ** 2))
    assert found <= 1.5 * theirs
    assert theirs < 0.1 * np.sqrt(np.mean(exact**2))


def test_fp16_between_int8_products_stays_within_a_bound(checkpoint: tuple[Path, Any], tmp_path: Path) -> None:
    """The same of fp16, with linear layers rounded to 8 bits in transformers too."""
    folder, model = checkpoint
    if model.config.model_type == "mixtral":
        pytest.skip("where two experts are nearly equal, rounding decides which one a token takes")
    tokens = torch.randint(96, (3, 32), generator=torch.Generator().manual_seed(2))
    stored = copy.deepcopy(model)
    for module in stored.modules():
        if isinstance(module, torch.nn.Linear):
            scale = module.weight.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127.5  # a row of padding is zero
            module.weight = torch.nn.Parameter((module.weight / scale).round().clamp(-128, 127) * scale)
    exact = expected(stored, tokens, 8)
    theirs = np.sqrt(np.mean((expected(stored.half(), tokens, 8) - exact) ** 2))
    found = np.sqrt(np.mean((logits(folder, tokens, 8, tmp_path, "eager", "int8/fp16") - exact) ** 2))
    assert found <= 1.5 * theirs
    assert theirs < 0.02 * np.sqrt(np.mean(exact**2))


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_greedy_tokens_are_identical(checkpoint: tuple[Path, Any], impl: str) -> None:
    folder, model = checkpoint
    tokens = torch.randint(3, 96, (2, 6), generator=torch.Generator().manual_seed(4))
    sequences, gaps = tokens, []
    # Each token from a pass over all before it.
    with torch.no_grad():
        for _ in range(64):
            last = model(sequences).logits[:, -1]
            best = last.topk(2, -1)
            gaps.append(best.values.diff(dim=-1).abs().min().item())
            sequences = torch.cat([sequences, best.indices[:, :1]], 1)
    assert min(gaps) > 1e-4, "a tie, which rounding decides"
    chosen = [[int(i) for i in line.split(",")] for line in ours(folder, tokens, 6, "greedy=64", impl).stdout.split()]
    assert chosen == sequences[:, 6:].tolist()
    assert len(set(chosen[0])) > 8, "a loop of a few tokens proves little"
