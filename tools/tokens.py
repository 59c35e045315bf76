# SPDX-License-Identifier: Apache-2.0
"""Text to token ids and back, by the tokenizer of a Hugging Face checkpoint: see tools/tokens."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.terminal import show
from roofreport.text import printable
from tokenizers import Tokenizer

# The package counts in 32 bits.
LARGEST_ID = (1 << 32) - 1


def refusal(why: str) -> SystemExit:
    return SystemExit(f"tools/tokens: {printable(why, 1000)}")


@contextmanager
def told(file: Path) -> Iterator[None]:
    """Whatever the package says of a tokenizer, in one line: a panic of its Rust is not even an Exception."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise refusal(f"{file}: {error}") from error


def load(file: Path) -> Tokenizer:
    if not file.is_file():
        raise refusal(f"{file} is missing: the folder of a checkpoint with its tokenizer is needed")
    with told(file):
        return Tokenizer.from_file(str(file))


def parse_id(text: str) -> int:
    # Python reads digits of every script, underscores, and numbers of any length in quadratic time.
    if not (text.isascii() and text.isdigit()):
        raise refusal(f"expected whole numbers, as in 1,2,3; got {printable(text, 40)!r}")
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(LARGEST_ID)) or int(digits) > LARGEST_ID:
        raise refusal(f"{printable(text, 40)} is no token: the largest id is {LARGEST_ID}")
    return int(digits)


def parse_ids(text: str) -> list[int]:
    return [parse_id(part) for part in text.replace(",", " ").split()]


def decode(tokenizer: Tokenizer, text: str) -> str:
    """Line by line; of "case<tab>ids", as roofbench --tokens_out writes them, the case stays in front."""
    lines = []
    for line in text.splitlines():
        *case, ids = line.split("\t")
        lines.append("\t".join([*case, tokenizer.decode(parse_ids(ids))]))
    return "\n".join(lines)


def encode(tokenizer: Tokenizer, text: str, by_line: bool) -> str:
    # Other separators that Python knows are characters of a line.
    pieces = text.split("\n") if by_line else [text]
    return "\n".join(",".join(str(i) for i in tokenizer.encode(piece).ids) for piece in pieces)


def given(words: list[str]) -> str:
    """The words, or else standard input, as UTF-8."""
    if not words and sys.stdin is None:
        raise refusal("there is neither text nor a standard input to read it from")
    data = " ".join(words).encode(errors="surrogateescape") if words else sys.stdin.buffer.read()
    try:
        return data.decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise refusal(f"the text is not UTF-8 (byte {error.start})") from error


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/tokens", description=__doc__)
    parser.add_argument("direction", choices=("encode", "decode"))
    parser.add_argument("--lines", action="store_true", help="encode: a line of ids for every line of the text")
    parser.add_argument("folder", type=Path)
    parser.add_argument("text", nargs="*")
    chosen = parser.parse_args(arguments)
    if chosen.lines and chosen.direction == "decode":
        parser.error("decode goes line by line in any case; --lines is of encode")
    file = chosen.folder / "tokenizer.json"
    tokenizer = load(file)
    text = given(chosen.text)
    with told(file):
        converted = encode(tokenizer, text, chosen.lines) if chosen.direction == "encode" else decode(tokenizer, text)
    try:
        show(converted)  # a vocabulary is a stranger's text: what a terminal could act on is spelt out
    except UnusableInputError as error:
        raise refusal(str(error)) from error
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
