# SPDX-License-Identifier: Apache-2.0
"""CTranslate2. It takes tokens as strings: t3 is the id 3."""

from __future__ import annotations

import time
from pathlib import Path

import ctranslate2
from ctranslate2.converters import TransformersConverter


def convert(checkpoint: Path, bits: str, into: Path) -> None:
    TransformersConverter(str(checkpoint)).convert(str(into), quantization=bits, force=True)


class CTranslate2:
    def __init__(self, folder: Path, bits: str, threads: int) -> None:
        self.generator = ctranslate2.Generator(
            str(folder), device="cpu", compute_type=bits, inter_threads=1, intra_threads=threads
        )

    def prefill(self, prompt: list[int]) -> None:
        self._generate(prompt, 1)

    def decode(self, prompt: list[int], tokens: int) -> list[float]:
        return self._generate(prompt, tokens)

    def _generate(self, prompt: list[int], tokens: int) -> list[float]:
        stamps: list[float] = []

        def note(step: object) -> bool:
            stamps.append(time.perf_counter())
            return False

        self.generator.generate_batch(
            [[f"t{token}" for token in prompt]],
            min_length=tokens,
            max_length=tokens,
            beam_size=1,
            sampling_topk=1,
            include_prompt_in_result=False,
            callback=note,
        )
        return stamps


def load(folder: Path, bits: str, threads: int, positions: int) -> CTranslate2:
    return CTranslate2(folder, bits, threads)
