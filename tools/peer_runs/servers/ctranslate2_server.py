# SPDX-License-Identifier: Apache-2.0
"""CTranslate2. It takes tokens as strings: t3 is the id 3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ctranslate2
from ctranslate2.converters import TransformersConverter


def convert(checkpoint: Path, bits: str, into: Path) -> None:
    TransformersConverter(str(checkpoint)).convert(str(into), quantization=bits, force=True)


class CTranslate2:
    def __init__(self, folder: Path, bits: str, threads: int, positions: int) -> None:
        self.generator = ctranslate2.Generator(
            str(folder), device="cpu", compute_type=bits, inter_threads=1, intra_threads=threads
        )

    def prefill(self, prompt: list[int]) -> None:
        self.decode(prompt, 1, lambda: None)

    def decode(self, prompt: list[int], tokens: int, done: Callable[[], object]) -> None:
        def note(step: object) -> bool:
            done()
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


load = CTranslate2
