# SPDX-License-Identifier: Apache-2.0
"""What is marked as markup goes into a page as it is; everything else is text, however it begins."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Markup:
    """HTML or SVG that this program made: a picture, a row. Text that was read is in it as text() gives it."""

    html: str


def text(value: str | Markup) -> str:
    """As it stands in a page, in an element or in a quoted attribute."""
    return value.html if isinstance(value, Markup) else escape(value)
