# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in 4 bits as GPTQ and AWQ publish them, made of a small model, and that model with the weights they hold.

The codes are packed as the formats are documented; weights come from a formula, not from the packed codes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tiny_models
import torch
from safetensors.numpy import save_file

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
PLAIN_ORDER = tuple(range(8))

Codes = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Packed:
    method: str
    group: int = 32  # -1: a row
    symmetric: bool = False
    version: int = 1  # of GPTQ's format

    def config(self) -> dict[str, Any]:
        if self.method == "awq":
            return {
                "quant_method": "awq",
                "bits": 4,
                "group_size": self.group,
                "zero_point": True,
                "version": "gemm",
                "modules_to_not_convert": None,
            }
        return {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": self.group,
            "desc_act": False,
            "sym": self.symmetric,
            "damp_percent": 0.1,
            "true_sequential": True,
            "checkpoint_format": "gptq" if self.version == 1 else "gptq_v2",
        }


def words_along_columns(codes: Codes, order: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """[n, 8·m] becomes [n, m]: column 8·i + order[j] in nibble j."""
    words = np.zeros((codes.shape[0], codes.shape[1] // 8), np.uint32)
    for nibble, column in enumerate(order):
        words |= codes[:, column::8] << (4 * nibble)
    return words.view(np.int32)


def pack(weight: npt.NDArray[np.float32], packed: Packed) -> tuple[dict[str, Any], npt.NDArray[np.float32]]:
    """The tensors of a layer [out, in], and the weights that they are."""
    rows, columns = weight.shape
    group = columns if packed.group == -1 else packed.group
    grouped = weight.reshape(rows, columns // group, group)
    if packed.symmetric:
        scale = (np.abs(grouped).max(2) / 7.5).astype(np.float16)
        zero = np.full(scale.shape, 8, np.int64)
    else:
        low, high = np.minimum(grouped.min(2), 0), np.maximum(grouped.max(2), 0)
        scale = ((high - low) / 15).astype(np.float16)
        # GPTQ's first format cannot represent a zero of 0.
        zero = np.clip(np.rint(-low / scale.astype(np.float32)), 1, 15).astype(np.int64)
    steps = scale.astype(np.float32)[:, :, None]
    codes = np.clip(np.rint(grouped / steps) + zero[:, :, None], 0, 15).astype(np.int64)
    exact = ((codes - zero[:, :, None]).astype(np.float32) * steps).reshape(rows, columns)
    across = np.ascontiguousarray(codes.reshape(rows, columns).T).astype(np.uint32)  # [in, out]
    zeros = np.ascontiguousarray(zero.T).astype(np.uint32)  # [groups, out]
    tensors: dict[str, Any] = {"scales": np.ascontiguousarray(scale.T)}
    if packed.method == "awq":
        tensors |= {
            "qweight": words_along_columns(across, AWQ_ORDER),
            "qzeros": words_along_columns(zeros, AWQ_ORDER),
        }
    else:
        tensors |= {
            "qweight": np.ascontiguousarray(words_along_columns(across.T, PLAIN_ORDER).T),
            "qzeros": words_along_columns(zeros - 1 if packed.version == 1 else zeros, PLAIN_ORDER),
            "g_idx": (np.arange(columns) // group).astype(np.int32),
        }
    return tensors, exact


def write(name: str, packed: Packed, folder: Path) -> Any:
    """Writes the checkpoint; returns the model in fp32 with the weights that it holds."""
    model = tiny_models.plain(name, vocab_size=96)
    tensors: dict[str, Any] = {}
    with torch.no_grad():
        for key, parameter in model.state_dict().items():
            if key.endswith("_proj.weight"):
                parts, exact = pack(parameter.numpy(), packed)
                stem = key.removesuffix("weight")
                tensors |= {stem + part: value for part, value in parts.items()}
                parameter.copy_(torch.from_numpy(exact))
            elif key != "lm_head.weight" or not model.config.tie_word_embeddings:
                if "norm" in key:
                    torch.nn.init.uniform_(parameter, 0.5, 1.5)
                parameter.copy_(parameter.half())
                tensors[key] = parameter.numpy().astype(np.float16)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    text = json.loads(model.config.to_json_string(use_diff=False))
    text |= {"model_type": model.config.model_type, "quantization_config": packed.config()}
    (folder / "config.json").write_text(json.dumps(text))
    return model
