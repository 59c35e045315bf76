# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in 4 bits match transformers with the decoded weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import packed_models
import pytest
import torch
from packed_models import Packed
from test_decoder import IMPLEMENTATIONS, expected, logits, ours

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds

KINDS = {
    "gptq": ("grouped", Packed("gptq")),
    "gptq_symmetric_rows": ("llama3_tied", Packed("gptq", group=-1, symmetric=True)),
    "gptq_v2": ("qwen2", Packed("gptq", version=2)),
    "awq": ("qwen3", Packed("awq")),
}


@pytest.fixture(scope="module", params=list(KINDS))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp(request.param)
    name, packed = KINDS[request.param]
    return folder, packed_models.write(name, packed, folder)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_logits_and_greedy_tokens_of_dequantised_weights(
    checkpoint: tuple[Path, Any], tmp_path: Path, impl: str
) -> None:
    folder, model = checkpoint
    tokens = torch.randint(96, (2, 40), generator=torch.Generator().manual_seed(1))
    found = logits(folder, tokens, 17, tmp_path, impl, "fp32")
    np.testing.assert_allclose(found, expected(model, tokens, 17), rtol=2e-4, atol=2e-4)

    sequences = tokens[:1, :6]
    with torch.no_grad():
        for _ in range(64):
            sequences = torch.cat([sequences, model(sequences).logits[:, -1:].argmax(-1)], 1)
    chosen = ours(folder, tokens[:1, :6], 6, "greedy=64", impl).stdout
    assert [int(i) for i in chosen.split(",")] == sequences[0, 6:].tolist()


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_int4_strays_no_further_than_bf16_of_the_same_weights(
    checkpoint: tuple[Path, Any], tmp_path: Path, impl: str
) -> None:
    """Codes as they are stored, scales in bf16: it rounds nothing that transformers in bf16 does not."""
    folder, model = checkpoint
    tokens = torch.randint(96, (2, 32), generator=torch.Generator().manual_seed(2))
    exact = expected(model, tokens, 8)
    found = np.sqrt(np.mean((logits(folder, tokens, 8, tmp_path, impl, "int4") - exact) ** 2))
    rounded = type(model)(model.config).bfloat16().eval()
    rounded.load_state_dict(model.state_dict())
    theirs = np.sqrt(np.mean((expected(rounded, tokens, 8) - exact) ** 2))
    assert found <= 1.5 * theirs
    assert theirs < 0.1 * np.sqrt(np.mean(exact**2))
