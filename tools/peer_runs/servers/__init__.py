# SPDX-License-Identifier: Apache-2.0
"""How each peer serves a model. A module has `load(folder, form, threads, positions)`, which returns a `Server` for
texts of at most `positions` tokens, and `convert(checkpoint, form, into)` if the peer needs its own file format. `form`
is the peer table's name of a precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Server(Protocol):
    def prefill(self, prompt: list[int]) -> None:
        """Reads a prompt into an empty cache and computes the logits of its last token."""

    def decode(self, prompt: list[int], tokens: int, done: Callable[[], object]) -> None:
        """Reads a prompt, generates as many tokens, and calls done() at the end of each."""
