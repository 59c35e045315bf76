# SPDX-License-Identifier: Apache-2.0
"""Where models call kernels of ours, and whether a range with the kernel's name is open there.

    python tests/structure/kernel_ranges.py [root]

A profile knows a kernel of ours by the range around it, "roofbench::rms_norm": without one, its time is nobody's. A
call is inside of one if a block around it opened it before, or if every call of the function that it stands in is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MODELS = "lib/models"
# Run(kernels::Gelu<T>{…}, …), RunRows(kernels::Gemv…), Run(work, …), and what quantises activations and unpacks
# weights; what makes a model is in no step.
KERNEL = re.compile(
    r"(?<![\w.>])Run(?:Rows|Heads)?\((?=\s*(?:kernels::|work\b))"
    r"|\b(?:made|activations_?)\.(?:Select|Quantise)\(|\bUnpackInt4\("
)
OPENED = re.compile(r'Range>?\s+(\w+)\([^;()]*"roofbench::')
GIVEN = re.compile(r'[^;{}]*?"roofbench::')  # as an argument of a call
NO_FUNCTION = re.compile(r"\s*(?:\w+ )*(?:namespace|class|struct|enum|union|extern)\b")
FUNCTION = re.compile(r"((?:[\w<>]+::)*)([\w~]+)\s*\(")
TEMPLATE = re.compile(r"\btemplate\s*<[^>]*>")
UNREAD = re.compile(r"//[^\n]*|^#[^\n]*", re.MULTILINE)


class Block(NamedTuple):
    """What stands between braces, and what before them since the last statement."""

    start: int
    end: int
    head: str


class Source:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = UNREAD.sub(lambda found: " " * len(found.group()), text)
        self.blocks = sorted(self._blocks())

    def _blocks(self) -> Iterator[Block]:
        opened: list[tuple[int, str]] = []
        last = 0
        for found in re.finditer(r"[{};]", self.text):
            if found.group() == "{":
                opened.append((found.end(), self.text[last : found.start()]))
            elif found.group() == "}" and opened:
                start, head = opened.pop()
                yield Block(start, found.start(), head)
            last = found.end()

    def around(self, place: int) -> list[Block]:
        """The blocks of the function that a place is in, the outermost first."""
        found = [block for block in self.blocks if block.start <= place < block.end]
        while found and NO_FUNCTION.match(TEMPLATE.sub("", found[0].head)):
            del found[0]
        return found

    def line(self, place: int) -> str:
        return f"{self.path}:{self.text.count(chr(10), 0, place) + 1}"

    def is_in_range(self, place: int) -> bool:
        for block in self.around(place):
            before = self.text[block.start : place]
            for inner in self.blocks:  # what a block opened has ended with it
                if block.start < inner.start and inner.end < place:
                    at = inner.start - block.start
                    before = before[:at] + " " * (inner.end - inner.start) + before[inner.end - block.start :]
            opened = list(OPENED.finditer(before))
            if opened and f"{opened[-1].group(1)}.reset()" not in before[opened[-1].end() :]:
                return True
        return False


class Models:
    """All sources of models: a function's calls are looked for in its own file, or in every one if others see it."""

    def __init__(self, root: Path) -> None:
        paths = sorted(path for path in (root / MODELS).rglob("*") if path.suffix in (".cc", ".h"))
        self.sources = [Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]
        self.kernels = [
            (source, found)
            for source in self.sources
            for found in KERNEL.finditer(source.text)
            if source.around(found.start())
        ]
        self._ends = {(source.path, found.end()) for source, found in self.kernels}

    def _calls(self, source: Source, head: str) -> list[tuple[Source, int]]:
        """Of the function with this head."""
        found = FUNCTION.search(TEMPLATE.sub("", head))
        if found is None:
            return []
        owner, name = found.groups()
        header = re.sub(r"\.cc$", ".h", source.path)
        is_seen = owner or any(each.path == header and f" {name}(" in each.text for each in self.sources)
        # Of the many that are called Run, those of objects.
        call = re.compile(rf"[\w)](?:\.|->){name}\(" if name == "Run" else rf"(?<![\w:~]){name}\(")
        return [
            (each, call_found.start())
            for each in (self.sources if is_seen else [source])
            for call_found in call.finditer(each.text)
            if each.around(call_found.start()) and (each.path, call_found.end()) not in self._ends
        ]

    def is_named(self, source: Source, place: int, deepest: int = 6) -> bool:
        if source.is_in_range(place) or GIVEN.match(source.text[place:].split("(", 1)[-1].split(")", 1)[0]):
            return True
        around = source.around(place)
        calls = self._calls(source, around[0].head) if around and deepest > 0 else []
        return bool(calls) and all(self.is_named(*call, deepest - 1) for call in calls)


def violations(root: Path) -> list[str]:
    models = Models(root)
    return [
        f"{source.line(found.start())}: a kernel of ours runs outside of a range with its name"
        for source, found in models.kernels
        if not models.is_named(source, found.start())
    ]


def main() -> int:
    found = violations(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
