# SPDX-License-Identifier: Apache-2.0
"""A checkpoint with random weights in the shape of a real model, which all engines read or convert."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Shape:
    """As the model of this name in lib/workload/models/decoder.cc."""

    d_model: int
    d_ff: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    tied_head: bool
    rope_base: float


SHAPES = {
    "tinyllama_1b": Shape(2048, 5632, 22, 32, 4, 32000, False, 10000.0),
    "llama3_1b": Shape(2048, 8192, 16, 32, 8, 128256, True, 500000.0),
    "llama3_1b_4th": Shape(2048, 8192, 4, 32, 8, 32064, True, 500000.0),
    "tiny_llama": Shape(128, 192, 2, 4, 2, 96, False, 10000.0),
}
# Prompt and generated tokens together.
POSITIONS = 4096
# Converters require a tokenizer; it is never used.
SPECIAL = {"unk_token": "t0", "bos_token": "t1", "eos_token": "t2"}


def make(model: str, folder: Path) -> None:
    """Writes reproducible weights in bf16."""
    import tokenizers
    import torch
    import transformers

    shape = SHAPES[model]
    config = transformers.LlamaConfig(
        hidden_size=shape.d_model,
        intermediate_size=shape.d_ff,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        vocab_size=shape.vocab,
        max_position_embeddings=POSITIONS,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_base},
        tie_word_embeddings=shape.tied_head,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    network: Any = transformers.LlamaForCausalLM._from_config(config, dtype=torch.bfloat16)
    network.save_pretrained(folder)
    words = tokenizers.models.WordLevel({f"t{token}": token for token in range(shape.vocab)}, unk_token="t0")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(words), **SPECIAL)
    tokenizer.save_pretrained(folder)


def prompt_of(vocab: int, tokens: int) -> list[int]:
    """Ids without special tokens."""
    return [3 + 7919 * place % (vocab - 3) for place in range(tokens)]
