# SPDX-License-Identifier: Apache-2.0
"""A Llama of one layer, written without any package, so that each of its files can be replaced."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

WIDTH, HIDDEN, VOCAB = 8, 12, 10
LAYER = "model.layers.0."
TENSORS: dict[str, list[int]] = {
    "model.embed_tokens": [VOCAB, WIDTH],
    "model.norm": [WIDTH],
    LAYER + "input_layernorm": [WIDTH],
    LAYER + "post_attention_layernorm": [WIDTH],
    LAYER + "self_attn.q_proj": [WIDTH, WIDTH],
    LAYER + "self_attn.k_proj": [WIDTH, WIDTH],
    LAYER + "self_attn.v_proj": [WIDTH, WIDTH],
    LAYER + "self_attn.o_proj": [WIDTH, WIDTH],
    LAYER + "mlp.gate_proj": [HIDDEN, WIDTH],
    LAYER + "mlp.up_proj": [HIDDEN, WIDTH],
    LAYER + "mlp.down_proj": [WIDTH, HIDDEN],
}
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "tie_word_embeddings": True,
}


def write(folder: Path, value: float = 0.1) -> Path:
    """Every weight is near `value`, and different from its neighbors."""
    header = {}
    data = b""
    for name, shape in TENSORS.items():
        count = math.prod(shape)
        begin = len(data)
        data += struct.pack(f"<{count}f", *(value * math.cos(i + begin) for i in range(count)))
        header[name + ".weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder
