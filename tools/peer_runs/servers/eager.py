# SPDX-License-Identifier: Apache-2.0
"""transformers, layer by layer in PyTorch."""

from __future__ import annotations

import time
from pathlib import Path

import torch
import transformers


class Eager:
    def __init__(self, folder: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation="sdpa"
        ).eval()

    @torch.inference_mode()
    def prefill(self, prompt: list[int]) -> None:
        cache = transformers.DynamicCache(config=self.model.config)
        self._forward(torch.tensor([prompt]), cache)

    @torch.inference_mode()
    def decode(self, prompt: list[int], tokens: int) -> list[float]:
        cache = transformers.DynamicCache(config=self.model.config)
        token = self._forward(torch.tensor([prompt]), cache)
        stamps = []
        for _ in range(tokens):
            token = self._forward(token, cache)
            stamps.append(time.perf_counter())
        return stamps

    def _forward(self, ids: torch.Tensor, cache: object) -> torch.Tensor:
        found = self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return torch.argmax(found.logits[:, -1:], dim=-1)


def load(folder: Path, bits: str, threads: int, positions: int) -> Eager:
    return Eager(folder, threads)
