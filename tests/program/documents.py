# SPDX-License-Identifier: Apache-2.0
"""README and docs/ as the tests read them: commands, blocks, headings and links."""

from __future__ import annotations

import re
from pathlib import Path

from built_program import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)")


def blocks(page: Path, language: str | None = None) -> list[str]:
    """The fenced blocks of a language, or of all."""
    found = _FENCE.findall(page.read_text())
    return [body for _, name, body in found if language is None or name == language]


def block(page: Path, language: str) -> str:
    (only,) = blocks(page, language)
    return only


def commands(page: Path) -> list[str]:
    """The commands of its sh blocks, each on one line."""
    text = "".join(blocks(page, "sh")).replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """What GitHub calls its headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """Those that lead to files, with their anchors."""
    text = re.sub(r"`[^`]*`", "", prose(page))
    return [link for link in _LINK.findall(text) if not link.startswith(("http:", "https:"))]
