# SPDX-License-Identifier: Apache-2.0
"""transformers by torch.compile with frozen weights, which inductor packs once for oneDNN and zentorch for ZenDNN."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
import transformers

# The form of the table: what torch.compile is told.
FORMS: dict[str, dict[str, Any]] = {
    "inductor": {"mode": "max-autotune-no-cudagraphs"},
    "zentorch": {"backend": "zentorch"},
}


class Compiled:
    def __init__(self, folder: Path, form: str, threads: int, positions: int) -> None:
        if form == "zentorch":
            importlib.import_module(form)  # registers itself
        torch.set_num_threads(threads)
        torch._inductor.config.freezing = True
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation="sdpa"
        ).eval()
        self.cache = transformers.StaticCache(config=self.model.config, max_cache_len=positions)
        self.compiled = torch.compile(self.model.forward, dynamic=False, **FORMS[form])

    @torch.inference_mode()
    def prefill(self, prompt: list[int]) -> None:
        self._forward(torch.tensor([prompt]), 0)

    @torch.inference_mode()
    def decode(self, prompt: list[int], tokens: int) -> list[float]:
        # Only tokens are timed: the prompt need not be compiled.
        self.cache.reset()
        self.model(torch.tensor([prompt]), past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        token = torch.tensor([[3]])
        stamps = []
        for place in range(tokens):
            token = self._forward(token, len(prompt) + place)
            stamps.append(time.perf_counter())
        return stamps

    def _forward(self, ids: torch.Tensor, start: int) -> torch.Tensor:
        if start == 0:
            self.cache.reset()
        places = torch.arange(start, start + ids.shape[1])[None]
        found = self.compiled(ids, position_ids=places, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        return torch.argmax(found.logits[:, -1:], dim=-1)


def load(folder: Path, form: str, threads: int, positions: int) -> Compiled:
    return Compiled(folder, form, threads, positions)
