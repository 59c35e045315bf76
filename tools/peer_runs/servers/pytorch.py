# SPDX-License-Identifier: Apache-2.0
"""transformers: eagerly in PyTorch, and by torch.compile with frozen weights, which Inductor packs once for oneDNN and
zentorch for ZenDNN."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
import transformers

# Arguments of torch.compile; eager is not compiled.
COMPILE: dict[str, dict[str, Any]] = {
    "inductor": {"mode": "max-autotune-no-cudagraphs"},
    "zentorch": {"backend": "zentorch"},
}


def load_model(folder: Path, threads: int) -> Any:
    torch.set_num_threads(threads)
    load = transformers.AutoModelForCausalLM.from_pretrained
    return load(folder, dtype=torch.bfloat16, attn_implementation="sdpa").eval()


def chosen(found: Any) -> torch.Tensor:
    """The most likely token after the last one."""
    return torch.argmax(found.logits[:, -1:], dim=-1)


class Eager:
    def __init__(self, folder: Path, threads: int) -> None:
        self.model = load_model(folder, threads)

    def prefill(self, prompt: list[int]) -> None:
        self._start(prompt)

    @torch.inference_mode()
    def decode(self, prompt: list[int], tokens: int, done: Callable[[], object]) -> None:
        token, cache = self._start(prompt)
        for _ in range(tokens):
            token = self._forward(token, cache)
            done()

    @torch.inference_mode()
    def _start(self, prompt: list[int]) -> tuple[torch.Tensor, object]:
        cache = transformers.DynamicCache(config=self.model.config)
        return self._forward(torch.tensor([prompt]), cache), cache

    def _forward(self, ids: torch.Tensor, cache: object) -> torch.Tensor:
        return chosen(self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1))


class Compiled:
    def __init__(self, folder: Path, form: str, threads: int, positions: int) -> None:
        if form == "zentorch":
            importlib.import_module(form)  # registers its backend
        torch._inductor.config.freezing = True
        self.model = load_model(folder, threads)
        self.cache = transformers.StaticCache(config=self.model.config, max_cache_len=positions)
        self.compiled = torch.compile(self.model.forward, dynamic=False, **COMPILE[form])

    @torch.inference_mode()
    def prefill(self, prompt: list[int]) -> None:
        self.cache.reset()
        self._forward(torch.tensor([prompt]), 0)

    @torch.inference_mode()
    def decode(self, prompt: list[int], tokens: int, done: Callable[[], object]) -> None:
        # Only tokens are timed: the prompt is not compiled.
        self.cache.reset()
        self.model(torch.tensor([prompt]), past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        token = torch.tensor([[3]])
        for place in range(tokens):
            token = self._forward(token, len(prompt) + place)
            done()

    def _forward(self, ids: torch.Tensor, start: int) -> torch.Tensor:
        places = torch.arange(start, start + ids.shape[1])[None]
        settings = {"position_ids": places, "past_key_values": self.cache, "use_cache": True, "logits_to_keep": 1}
        return chosen(self.compiled(ids, **settings))


def load(folder: Path, form: str, threads: int, positions: int) -> Eager | Compiled:
    return Compiled(folder, form, threads, positions) if form in COMPILE else Eager(folder, threads)
