# SPDX-License-Identifier: Apache-2.0
"""A model of two layers as transformers writes it, with a tokenizer of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

VOCAB = 96


def write(folder: Path, architecture: str = "Llama", **sizes: Any) -> Any:
    """Writes config.json, safetensors and tokenizer.json; returns the model. Skips the test without transformers."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    torch.manual_seed(3)
    plain = {
        "vocab_size": VOCAB,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.2,
        "eos_token_id": VOCAB - 1,
    }
    config = getattr(transformers, f"{architecture}Config")(**(plain | sizes))
    model = getattr(transformers, f"{architecture}ForCausalLM")(config).eval()
    model.save_pretrained(folder)
    words = {f"w{i}": i for i in range(VOCAB)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    return model
