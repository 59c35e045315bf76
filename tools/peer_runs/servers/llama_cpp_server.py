# SPDX-License-Identifier: Apache-2.0
"""llama.cpp by its Python binding: its own file format, quantizer and decode call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import llama_cpp
import numpy as np

MODEL = "model.gguf"
FORMS = {
    "BF16": llama_cpp.LLAMA_FTYPE_MOSTLY_BF16,
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
    "Q4_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
}
# Its head would otherwise have 6 bits; roofbench uses 4 in all products.
PURE = "Q4_0"


def convert(checkpoint: Path, form: str, into: Path) -> None:
    from peer_runs.servers import gguf_file

    into.mkdir()
    if form == "BF16":
        gguf_file.write(checkpoint, into / MODEL)
        return
    whole = into / "bf16.gguf"
    gguf_file.write(checkpoint, whole)
    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype = FORMS[form]
    settings.pure = form == PURE
    failed = llama_cpp.llama_model_quantize(bytes(whole), bytes(into / MODEL), ctypes.byref(settings))
    whole.unlink()
    if failed:
        raise SystemExit(f"llama.cpp failed to quantize to {form}: llama_model_quantize returned {failed}")


class LlamaCpp:
    def __init__(self, folder: Path, form: str, threads: int, positions: int) -> None:
        llama_cpp.llama_backend_init()
        model = llama_cpp.llama_model_default_params()
        # Pages mapped from a file would be small.
        model.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
        self.model = llama_cpp.llama_model_load_from_file(bytes(folder / MODEL), model)
        if not self.model:
            raise SystemExit(f"llama.cpp failed to load {folder / MODEL}")
        context = llama_cpp.llama_context_default_params()
        context.n_ctx = context.n_batch = positions
        context.n_threads = context.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, context)
        if not self.context:
            raise SystemExit("llama.cpp failed to create a context")
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def prefill(self, prompt: list[int]) -> None:
        self._restart(prompt)

    def decode(self, prompt: list[int], tokens: int, done: Callable[[], object]) -> None:
        token = self._restart(prompt)
        for _ in range(tokens):
            token = self._forward([token])
            done()

    def _restart(self, prompt: list[int]) -> int:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), False)
        return self._forward(prompt)

    def _forward(self, ids: list[int]) -> int:
        tokens = (llama_cpp.llama_token * len(ids))(*ids)  # the batch only points to it
        batch = llama_cpp.llama_batch_get_one(tokens, len(ids))
        if failed := llama_cpp.llama_decode(self.context, batch):
            raise SystemExit(f"llama.cpp: llama_decode returned {failed}")
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        return int(np.argmax(np.ctypeslib.as_array(logits, shape=(self.vocab,))))


load = LlamaCpp
