# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that transformers writes from random configurations, one of each architecture that our decoder takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 3.0}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
    "long_factor": [1.0, 1.5, 2.0, 4.0, 8.0, 16.0],
}
SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    # Ten times transformers' deviation: with weights as small as its own, every token would follow every other.
    "initializer_range": 0.2,
}
# The architecture, and sizes that differ from those above.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama2": ("Llama", {"num_key_value_heads": 4}),
    "grouped": ("Llama", {"num_attention_heads": 8, "rms_norm_eps": 1e-3}),
    "llama3_tied": ("Llama", {"head_dim": 32, "tie_word_embeddings": True, "rope_parameters": STRETCHED}),
    "mixtral": ("Mixtral", {"num_local_experts": 8, "num_experts_per_tok": 2}),
    # A window that every prompt outgrows while it is read, or token by token.
    "mistral": ("Mistral", {"sliding_window": 11, "vocab_size": 97}),
    # Biases of all four products of attention, and pairs that turn slower, with an attention factor.
    "biased_yarn": (
        "Llama",
        {
            "attention_bias": True,
            "vocab_size": 95,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 32,
            },
        },
    ),
    # Joined products, and three quarters of a head turn, by factors of short texts.
    "phi3": (
        "Phi3",
        {
            "pad_token_id": 0,
            "eos_token_id": 2,
            "original_max_position_embeddings": 128,
            "rope_parameters": {"partial_rotary_factor": 0.75, **LONGROPE},
        },
    ),
    "qwen2": (
        "Qwen2",
        {
            "tie_word_embeddings": True,
            "vocab_size": 101,
            # Applies to the second layer alone.
            "use_sliding_window": True,
            "sliding_window": 9,
            "max_window_layers": 1,
        },
    ),
    "qwen3": ("Qwen3", {"head_dim": 32, "vocab_size": 99}),
    # A window of the first layer, and bounds that scores and logits come near to.
    "gemma2": (
        "Gemma2",
        {
            "head_dim": 32,
            "query_pre_attn_scalar": 48,
            "sliding_window": 9,
            "attn_logit_softcapping": 10.0,
            "final_logit_softcapping": 20.0,
            "vocab_size": 98,
        },
    ),
}
# The type that weights are rounded to and stored as; fp32 by default.
STORED = {"mistral": torch.bfloat16, "qwen2": torch.float16}


def plain(name: str, **sizes: Any) -> Any:
    """The model as transformers initializes it."""
    architecture, more = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{architecture}Config")(**(SIZES | more | sizes))
    return getattr(transformers, f"{architecture}ForCausalLM")(config).eval()


def write(name: str, folder: Path, **sizes: Any) -> Any:
    """Writes the checkpoint in several files; returns the model in fp32."""
    model = plain(name, **sizes)
    for parameter_name, parameter in model.named_parameters():
        if "norm" in parameter_name:
            # With small outputs a token whose embedding is scaled would follow itself, the head being tied.
            is_output = name == "gemma2" and "post_" in parameter_name
            torch.nn.init.uniform_(parameter, 0.5, 15 if is_output else 1.5)
        elif parameter_name.endswith(".bias"):
            torch.nn.init.normal_(parameter, 0, 0.5)
    model.to(STORED.get(name, torch.float32)).save_pretrained(folder, max_shard_size="100KB")
    assert (folder / "model.safetensors.index.json").exists(), "in one file"
    # Read again: `to` has rounded the frequencies of rope, too, which a checkpoint does not hold.
    return type(model).from_pretrained(folder, dtype=torch.float32).eval()
