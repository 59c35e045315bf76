# SPDX-License-Identifier: Apache-2.0
"""Text to token ids and back, by the tokenizer of a Hugging Face checkpoint: see tools/tokens."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tokenizers import Tokenizer


def load(folder: Path) -> Tokenizer:
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise SystemExit(f"tools/tokens: {file} is missing: the folder of a checkpoint with its tokenizer is needed")
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises nothing more special
        raise SystemExit(f"tools/tokens: {file}: {error}") from error


def parse_ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise SystemExit(f"tools/tokens: expected whole numbers, as in 1,2,3: {error}") from error


def decode(tokenizer: Tokenizer, text: str) -> str:
    """Line by line; of "case<tab>ids", as roofbench --tokens_out writes them, the case stays in front."""
    lines = []
    for line in text.splitlines():
        *case, ids = line.split("\t")
        lines.append("\t".join([*case, tokenizer.decode(parse_ids(ids))]))
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/tokens", description=__doc__)
    parser.add_argument("direction", choices=("encode", "decode"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("text", nargs="*")
    chosen = parser.parse_args(arguments)
    tokenizer = load(chosen.folder)
    text = " ".join(chosen.text) if chosen.text else sys.stdin.read().rstrip("\n")
    if chosen.direction == "encode":
        print(",".join(str(i) for i in tokenizer.encode(text).ids))
    else:
        print(decode(tokenizer, text))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
