# SPDX-License-Identifier: Apache-2.0
"""Converts a Llama checkpoint to a file for llama.cpp, in bf16."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint16]  # the bits of bf16

OUTSIDE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
OF_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def name_of(name: str) -> str:
    """llama.cpp's name of a tensor of transformers."""
    if name in OUTSIDE:
        return OUTSIDE[name]
    layer, _, rest = name.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{OF_LAYER[rest.removesuffix('.weight')]}.weight"


def pairs_together(rows: Words, heads: int) -> Words:
    """llama.cpp rotates neighboring rows, transformers rows half a head apart."""
    together: Words = rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)
    return together


def tensors(file: Path) -> Iterator[tuple[str, Words]]:
    """The tensors of a safetensors file. numpy lacks a type for bf16."""
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header: dict[str, Any] = json.loads(stream.read(size))
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            raise SystemExit(f"{file}: {name} is {entry['dtype']}, not BF16")
        start = 8 + size + entry["data_offsets"][0]
        yield name, np.memmap(file, np.uint16, "r", start, tuple(entry["shape"]))


def write(checkpoint: Path, into: Path) -> None:
    import gguf

    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(into, "llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // heads)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    permuted = {"attn_q": heads, "attn_k": kv_heads}
    for file in sorted(checkpoint.glob("*.safetensors")):
        for name, words in tensors(file):
            ours = name_of(name)
            if words.ndim == 1:  # llama.cpp stores norms in fp32
                writer.add_tensor(ours, (words.astype(np.uint32) << 16).view(np.float32))
                continue
            of = permuted.get(ours.split(".")[-2])
            rows = pairs_together(words, of) if of else words
            writer.add_tensor(ours, rows.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
