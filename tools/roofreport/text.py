# SPDX-License-Identifier: Apache-2.0
"""Text from files and exceptions, made safe to print on one line."""

from __future__ import annotations

import unicodedata

# Control, format (which holds the marks that reverse the direction of text), surrogate and separator characters.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str, limit: int = 200) -> str:
    """`text` with what a terminal could act on replaced, and cut to `limit` characters."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _UNPRINTABLE else c for c in text)
