# SPDX-License-Identifier: Apache-2.0
"""How each peer serves a model. A module has `convert(checkpoint, form, into)` if its peer has a form of its own, and
`load(folder, form, threads, positions)`, which gives a `Server` for texts of so many tokens. The form is what the table
of peers calls it, by default the precision."""

from __future__ import annotations

from typing import Protocol


class Server(Protocol):
    def prefill(self, prompt: list[int]) -> None:
        """Reads a prompt into an empty cache, to the logits of its last token."""

    def decode(self, prompt: list[int], tokens: int) -> list[float]:
        """Goes on after the prompt by as many tokens; time.perf_counter() at the end of each."""
