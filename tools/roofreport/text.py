# SPDX-License-Identifier: Apache-2.0
"""Untrusted text, made safe for its reader: a terminal, a line of a table, a spreadsheet.

Text becomes inert where it enters: in the loader of results, the history, the readers of other files, the arguments,
the output of programs, and the text of an error. Tables, pictures and pages show it as it is.
"""

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


def inert(text: str) -> str:
    """`text` on one line, with every character that a terminal could act on escaped: for what comes from outside."""
    return text if text.isprintable() else text.translate(_LINE)


def shortened(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str, limit: int = 200) -> str:
    """What comes from outside, in a message."""
    return inert(shortened(text, limit))


def spreadsheet(text: str) -> str:
    """`text` as a spreadsheet shows it, also where it begins like a formula."""
    return "'" + text if text.startswith(_FORMULA) else text
