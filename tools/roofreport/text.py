# SPDX-License-Identifier: Apache-2.0
"""Untrusted text, made safe for its reader: a terminal, a line of a table, a spreadsheet."""

from __future__ import annotations

import unicodedata

# Control, format (which holds the marks that reverse the direction of text), surrogate and separator characters.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Format characters that text needs and that terminals do not act on: joiners, for emoji and several scripts.
_HARMLESS = {"\N{ZERO WIDTH NON-JOINER}", "\N{ZERO WIDTH JOINER}"}
# How a text begins that a spreadsheet runs, also in the full width of East Asian keyboards.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class _Spelling(dict[int, str]):
    """A table for str.translate, filled once for each character."""

    def __init__(self, kept: str = "") -> None:
        super().__init__((ord(character), character) for character in kept)

    def __missing__(self, code: int) -> str:
        character = chr(code)
        acts = unicodedata.category(character) in _UNPRINTABLE and character not in _HARMLESS
        self[code] = character.encode("unicode_escape").decode() if acts else character
        return self[code]


_LINES, _LINE = _Spelling("\n\t"), _Spelling()


def escaped(text: str) -> str:
    """`text`, of lines and tabs, with every other character that a terminal could act on escaped, as \\x1b."""
    return text if text.isprintable() else text.translate(_LINES)


def printable(text: str, limit: int = 200) -> str:
    """`text` on one line, cut to `limit` characters, with characters that a terminal could act on escaped."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut if cut.isprintable() else cut.translate(_LINE)


def spreadsheet(text: str) -> str:
    """`text` as a spreadsheet shows it, also where it begins like a formula."""
    return "'" + text if text.startswith(_FORMULA) else text
