# SPDX-License-Identifier: Apache-2.0
"""Text to token ids and back, by the tokenizer of a Hugging Face checkpoint (its tokenizer.json).

tools/tokens encode FOLDER [TEXT...]   prints ids separated by commas; without TEXT it reads standard input
       encode --lines FOLDER           the same of every line of it, as a line
tools/tokens decode FOLDER [IDS]       prints the text of "1,2,3"; without IDS it reads lines of standard input,
                                       also those of roofbench --tokens_out
tools/tokens complete FOLDER [TEXT...] [FLAGS]  both around roofbench: measures how the checkpoint continues TEXT, and
                                       prints the texts at the end, one for each precision. FLAGS are roofbench's
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.exit_status import ended, status_of
from roofreport.terminal import show
from roofreport.text import printable
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build/release/bin/roofbench"
# The tokenizers package uses 32-bit ids.
LARGEST_ID = (1 << 32) - 1


def refusal(why: str) -> SystemExit:
    return SystemExit(f"tools/tokens: {printable(why, 1000)}")


@contextmanager
def one_line_errors(file: Path) -> Iterator[None]:
    """Reports any error of the package in one line. A Rust panic is not an Exception."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise refusal(f"{file}: {error}") from error


def load(file: Path) -> Tokenizer:
    if not file.is_file():
        raise refusal(f"{file} is missing: expected the folder of a checkpoint with its tokenizer")
    with one_line_errors(file):
        tokenizer = Tokenizer.from_file(str(file))
        # As in transformers, where only a call that asks for them pads or truncates.
        tokenizer.no_padding()
        tokenizer.no_truncation()
    return tokenizer


def parse_id(text: str) -> int:
    # Python's int() accepts digits of every script and underscores, and takes quadratic time.
    if not (text.isascii() and text.isdigit()):
        raise refusal(f"expected whole numbers, as in 1,2,3; got {printable(text, 40)!r}")
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(LARGEST_ID)) or int(digits) > LARGEST_ID:
        raise refusal(f"{printable(text, 40)} is not a token: the largest id is {LARGEST_ID}")
    return int(digits)


def parse_ids(text: str) -> list[int]:
    return [parse_id(part) for part in text.replace(",", " ").split()]


def decode(tokenizer: Tokenizer, text: str) -> str:
    """Decodes each line, and keeps the case of "case<tab>ids" lines, which roofbench --tokens_out writes."""
    lines = []
    for line in text.splitlines():
        *case, ids = line.split("\t")
        lines.append("\t".join([*case, tokenizer.decode(parse_ids(ids))]))
    return "\n".join(lines)


def encode(tokenizer: Tokenizer, text: str, by_line: bool) -> str:
    # splitlines() would split at further separators.
    pieces = text.split("\n") if by_line else [text]
    return "\n".join(",".join(str(i) for i in tokenizer.encode(piece).ids) for piece in pieces)


def complete(tokenizer: Tokenizer, folder: Path, prompts: str, flags: Sequence[str], program: Path) -> tuple[int, str]:
    """roofbench's exit status, and what it made of the prompts, as `decode` gives it."""
    if not program.exists():
        raise refusal(f"{program} is missing; tools/setup builds it")
    with tempfile.TemporaryDirectory() as temporary:
        ids, answers = Path(temporary, "prompts"), Path(temporary, "answers")
        ids.write_text(prompts, encoding="utf-8")
        files = (f"--checkpoint={folder}", f"--prompt_ids={ids}", f"--tokens_out={answers}")
        run = [str(program), "--benchmark_filter=^complete/", *flags, *files]
        status = status_of(run)
        return status, decode(tokenizer, answers.read_text(encoding="utf-8") if answers.exists() else "")


def given(words: list[str]) -> str:
    """The words or standard input, as UTF-8."""
    if not words and sys.stdin is None:
        raise refusal("no text is given, and standard input is closed")
    data = " ".join(words).encode(errors="surrogateescape") if words else sys.stdin.buffer.read()
    try:
        return data.decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise refusal(f"the text is not UTF-8 (byte {error.start})") from error


def main(arguments: list[str], program: Path = PROGRAM) -> int:
    parser = argparse.ArgumentParser(
        prog="tools/tokens",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("direction", choices=("encode", "decode", "complete"))
    parser.add_argument(
        "--lines", action="store_true", help="encode: print one line of ids for each line of text; complete: a prompt"
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("text", nargs="*")
    chosen, flags = parser.parse_known_args(arguments)
    if flags and chosen.direction != "complete":
        parser.error(f"unrecognized arguments: {printable(' '.join(flags), 200)}")
    if chosen.lines and chosen.direction == "decode":
        parser.error("--lines requires encode; decode always reads lines")
    file = chosen.folder / "tokenizer.json"
    tokenizer = load(file)
    text = given(chosen.text)
    status = 0
    with one_line_errors(file):
        converted = decode(tokenizer, text) if chosen.direction == "decode" else encode(tokenizer, text, chosen.lines)
        if chosen.direction == "complete":
            status, converted = complete(tokenizer, chosen.folder, converted, flags, program)
    try:
        show(converted)  # escapes control characters of an untrusted vocabulary
    except UnusableInputError as error:
        raise refusal(str(error)) from error
    return status


if __name__ == "__main__":
    sys.exit(ended("tools/tokens", lambda: main(sys.argv[1:])))
