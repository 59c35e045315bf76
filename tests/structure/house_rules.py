# SPDX-License-Identifier: Apache-2.0
"""How the house is kept: small files, small folders, and no word of a family in lib/.

    python tests/structure/house_rules.py [root]

Each rule is a function that returns one line for each place that breaks it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from structure_rules import SOURCE_SUFFIXES, project_files

# Where people read and write: a test may be as long as its table.
ROOMS = ("lib/", "benchmarks/", "tools/")
MOST_SOURCES = 15  # of a folder, beside each other; a .cc and its .h are one
MOST_LINES = 400
# Folders with a stricter limit.
MOST_LINES_IN = {"lib/run/": 250}
# Not written by hand.
GENERATED = {"tools/roofreport/contract.json"}

# The one place of lib/ that spells the axes which families share.
SHARED_AXES = re.compile(r"lib/suite/shared_axes\.(h|cc)")
# Words that are also the name of a family or axis, but mean something else in these files.
MEANT_OTHERWISE: dict[str, dict[str, str]] = {
    "lib/base/": {"n": "a prefix of units", "m": "a prefix of units", "k": "a prefix of units"},
    "lib/gbench/": {"m": "a prefix of units"},
    "lib/hardware/roofs/": {"read": "a roof of memory", "copy": "a roof of memory"},
    "lib/kernels/simd/": {"m": "an operand in memory, in assembly"},
    "lib/models/": {
        "attention": "a component of a model",
        "decode": "a phase",
        "dtype": "a key of safetensors",
        "embedding": "a component of a model",
        "head": "a component of a model",
        "heads": "of an attention",
        "optimizer": "a phase",
        "outliers": "a stage of LLM.int8()",
        "prefill": "a phase",
        "softmax": "a stage of attention",
    },
    "lib/models/checkpoint/": {"backend": "a key of quantization_config"},
    "lib/models/checkpoint/checkpoint_summary.": {
        "bytes": "a key of a summary",
        "context": "a key of a summary",
        "d_ff": "a key of a summary",
        "d_model": "a key of a summary",
        "kv_heads": "a key of a summary",
        "layers": "a key of a summary",
        "parameters": "a key of a summary",
        "precision": "a key of a summary",
        "vocab": "a key of a summary",
    },
    "lib/observe/ranges.": {"optimizer": "a phase", "parameters": "of a model"},
    "lib/observe/memory/": {
        "activations": "a kind of memory",
        "parameters": "a kind of memory",
        "size": "a key of PyTorch's snapshots",
    },
    "lib/observe/profile/": {
        "attention": "a kind of work",
        "bytes": "a column",
        "gemv": "a part of kernels' names",
        "matmul": "a part of kernels' names",
        "self": "a column",
        "softmax": "a kind of work",
        "steps": "a key of a profile",
    },
    "lib/results/": {"bytes": "a field of the journal", "parameters": "a counter"},
    "lib/results/contract.": {"impl": "a role of axes", "size": "a role of axes"},
    "lib/suite/describe.": {"impl": "a role of axes", "size": "a role of axes"},
    "lib/run/": {"context": "a key of the journal", "copy": "a roof of memory", "read": "a roof of memory"},
    "lib/workload/": {
        "embedding": "a component of a model",
        "attention": "a component of a model",
        "decode": "a phase",
        "head": "a component of a model",
        "prefill": "a phase",
        "softmax": "a stage of attention",
    },
    "lib/suite/steps/compiled.": {"model": "what a package of Inductor's calls its part"},
}

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# "impl:eager", "matmul/impl:", "matmul/.*", "--axis=matmul.n=3000", "--benchmark_filter='^matmul".
_SPOKEN = [
    re.compile(pattern)
    for pattern in (
        r"(?:^|[\s/'(=])(\w+):\w",
        r"(\w+)/(?:\w+:|\.\*)",
        r"--axis=(\w+)[.=]",
        r"--axis=\w+\.(\w+)=",
        r"_filter='?\^?(\w+)",
    )
]
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//.*')


def _sources(root: Path) -> list[str]:
    """What is written by hand in the rooms: C++, CUDA, Python, scripts."""
    found = []
    for path in project_files(root):
        if path.startswith(ROOMS) and path not in GENERATED:
            file = Path(path)
            if file.suffix in SOURCE_SUFFIXES | {".py", ".js", ".css"} or (root / path).read_bytes()[:2] == b"#!":
                found.append(path)
    return found


def crowded_folders(root: Path) -> Iterator[str]:
    stems: dict[str, set[str]] = {}
    for path in _sources(root):
        file = Path(path)
        if file.name != "__init__.py":
            stems.setdefault(file.parent.as_posix(), set()).add(file.name.split(".")[0])
    for folder, names in sorted(stems.items()):
        if len(names) > MOST_SOURCES:
            yield f"{folder}: {len(names)} sources beside each other; {MOST_SOURCES} are the most"


def long_files(root: Path) -> Iterator[str]:
    for path in _sources(root):
        most = next((lines for folder, lines in MOST_LINES_IN.items() if path.startswith(folder)), MOST_LINES)
        lines = len((root / path).read_text(encoding="utf-8").splitlines())
        if lines > most:
            yield f"{path}: {lines} lines; {most} are the most"


def words_of_families(root: Path) -> set[str]:
    """Names of families and of their axes, of today and of before, as the packaged contract has them."""
    contract = json.loads((root / "tools/roofreport/contract.json").read_text(encoding="utf-8"))
    words = {axis["name"] for family in contract["families"] for axis in family["axes"]}
    words |= {family["name"] for family in contract["families"]}
    return words | {rename.get("axis", rename["family"]) for rename in contract["renames"]}


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string, without includes and comments."""
    for number, line in enumerate(source.splitlines(), 1):
        code = _COMMENT.sub(lambda match: match[1] or "", line)
        if not re.match(r"\s*#", code):
            yield from ((number, text) for text in _LITERAL.findall(code))


def spoken_words(text: str, words: set[str]) -> set[str]:
    """The words that a string is, or that it names as a part of a case ("impl:eager")."""
    return ({text} | {name for pattern in _SPOKEN for name in pattern.findall(text)}) & words


def families_in_lib(root: Path) -> Iterator[str]:
    words = words_of_families(root)
    for path in project_files(root):
        if not path.startswith("lib/") or Path(path).suffix not in SOURCE_SUFFIXES or SHARED_AXES.fullmatch(path):
            continue
        allowed: set[str] = set()
        for folder, meanings in MEANT_OTHERWISE.items():
            if path.startswith(folder):
                allowed |= set(meanings)
        for number, text in literals((root / path).read_text(encoding="utf-8")):
            for word in sorted(spoken_words(text, words) - allowed):
                yield f"{path}:{number}: {word!r} is a family's or an axis' name: {text[:60]!r}"


RULES = (crowded_folders, long_files, families_in_lib)


if __name__ == "__main__":
    found = [line for rule in RULES for line in rule(Path(sys.argv[1] if len(sys.argv) > 1 else "."))]
    print("\n".join(found))
    sys.exit(bool(found))
