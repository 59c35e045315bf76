# SPDX-License-Identifier: Apache-2.0
"""onnxruntime-genai: models of its builder, run by its generator."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime_genai

# As many weights per scale as roofbench, activations rounded to 8 bits, and logits of a prompt's last token only.
OPTIONS = ("block_size=64", "accuracy_level=4", "prune_lm_head=true")


def convert(checkpoint: Path, bits: str, into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into.parent) as cache:
        folders: list[str | Path] = ["-i", checkpoint, "-o", into, "-c", cache]
        program = [sys.executable, "-I", "-m", "onnxruntime_genai.models.builder"]
        subprocess.run([*program, *folders, "-p", bits, "-e", "cpu", "--extra_options", *OPTIONS], check=True)


class Genai:
    def __init__(self, folder: Path, bits: str, threads: int, positions: int) -> None:
        config = onnxruntime_genai.Config(str(folder))
        options = {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self.model = onnxruntime_genai.Model(config)
        self.positions = positions

    def prefill(self, prompt: list[int]) -> None:
        self._read(prompt).generate_next_token()

    def decode(self, prompt: list[int], tokens: int, done: Callable[[], object]) -> None:
        generator = self._read(prompt)
        for _ in range(tokens):
            # The first token comes from the prompt's logits; each further one runs the model.
            generator.generate_next_token()
            done()

    def _read(self, prompt: list[int]) -> onnxruntime_genai.Generator:
        settings = onnxruntime_genai.GeneratorParams(self.model)
        # No end token is accepted before that length.
        settings.set_search_options(max_length=self.positions, min_length=self.positions, do_sample=False)
        generator = onnxruntime_genai.Generator(self.model, settings)
        generator.append_tokens(np.array(prompt, np.int32))
        return generator


load = Genai
