# SPDX-License-Identifier: Apache-2.0
"""tools/tokens encodes and decodes by a checkpoint's tokenizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import tokens as token_tool

ROOT = Path(__file__).resolve().parents[2]


def tokens(*arguments: str | bytes, text: str | bytes = "") -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "tools" / "tokens"), *arguments]
    given = text.encode() if isinstance(text, str) else text
    done = subprocess.run(command, input=given, capture_output=True, timeout=600, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: i for i, word in enumerate(["[UNK]", "the", "roof", "is", "high"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_round_trip(folder: Path) -> None:
    assert tokens("encode", str(folder), "the", "roof").stdout == "1,2\n"
    assert tokens("encode", str(folder), text="is high\n").stdout == "3,4\n"
    assert tokens("decode", str(folder), "1,2,3,4").stdout == "the roof is high\n"
    assert tokens("decode", str(folder), text="4 3").stdout == "high is\n"
    assert tokens("decode", str(folder), text="complete/new:2\t4,3\nother\t1\n").stdout == (
        "complete/new:2\thigh is\nother\tthe\n"
    )


def test_lines_encodes_each_line(folder: Path) -> None:
    text = "the roof\nis\x85high the\n"
    assert tokens("encode", "--lines", str(folder), text=text).stdout == "1,2\n3,4,1\n"
    assert tokens("encode", str(folder), text=text).stdout == "1,2,3,4,1\n"
    refused = tokens("decode", "--lines", str(folder), "1,2")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--lines requires encode" in refused.stderr


# Answers a prompt of ids by the same ids in another order, for two precisions.
_PROGRAM = """#!/bin/sh
for flag; do case $flag in --prompt_ids=*) ids=${flag#*=};; --tokens_out=*) out=${flag#*=};; esac; done
echo "measured $1 $2"
[ "$2" != --fails ] || exit 3
printf 'complete/precision:bf16/new:2\\t%s\\ncomplete/precision:int8/new:2\\t4\\n' "$(cat "$ids")" >"$out"
"""


def test_complete_prints_the_texts_at_the_end(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = folder / "roofbench"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    axis = "--axis=complete.precision=bf16,int8"
    assert token_tool.main(["complete", str(folder), "the", "roof", axis], program) == 0
    assert capfd.readouterr().out.splitlines() == [
        f"measured --benchmark_filter=^complete/ {axis}",
        "complete/precision:bf16/new:2\tthe roof",
        "complete/precision:int8/new:2\thigh",
    ]
    assert token_tool.main(["complete", str(folder), "the", "--fails"], program) == 3
    assert "high" not in capfd.readouterr().out
    with pytest.raises(SystemExit, match="is missing; tools/setup builds it"):
        token_tool.main(["complete", str(folder), "the"], folder / "none")
    with pytest.raises(SystemExit):
        token_tool.main(["encode", str(folder), "the", axis])
    assert f"unrecognized arguments: {axis}" in capfd.readouterr().err


def test_padding_and_truncation_of_the_checkpoint_are_off(folder: Path) -> None:
    """They serve batches of a training: a prompt would silently lose its end, or get tokens of other texts."""
    file = folder / "tokenizer.json"
    tokenizer = token_tool.load(file)
    tokenizer.enable_truncation(max_length=2)
    tokenizer.enable_padding(length=5, pad_id=0)
    tokenizer.save(str(file))
    assert tokens("encode", str(folder), "the roof is high").stdout == "1,2,3,4\n"
    assert tokens("encode", "--lines", str(folder), text="the\nroof is\n").stdout == "1\n2,3\n"


def test_errors_name_the_reason(folder: Path, tmp_path: Path) -> None:
    missing = tokens("encode", str(tmp_path / "nowhere"), "x")
    assert missing.returncode != 0
    assert "tokenizer.json is missing" in missing.stderr
    wrong = tokens("decode", str(folder), "1,b")
    assert wrong.returncode != 0
    assert "expected whole numbers" in wrong.stderr
    (folder / "tokenizer.json").write_text("{")
    assert tokens("encode", str(folder), "x").returncode != 0


@pytest.mark.parametrize("ids", ["4294967296", "9" * 30, "9" * 5000, "-1", "1_0", "²", "\uff11", "1e3", "1.0", "0x1"])
def test_invalid_ids_are_refused_in_one_line(folder: Path, ids: str) -> None:
    tokenizer = token_tool.load(folder / "tokenizer.json")
    for text in (f"1,{ids}", f"case\t1,{ids}\n"):
        with pytest.raises(SystemExit) as refused:
            token_tool.decode(tokenizer, text)
        message = str(refused.value)
        assert message.startswith("tools/tokens: ")
        assert "\n" not in message
        assert len(message) < 300


def test_the_largest_id_is_accepted(folder: Path) -> None:
    """It is in no vocabulary. Leading zeros do not count."""
    assert tokens("decode", str(folder), f"1,{'0' * 5000}2,4294967295").stdout == "the roof\n"


@pytest.mark.parametrize("direction", ["encode", "decode"])
def test_invalid_utf_8_is_refused_in_one_line(folder: Path, direction: str) -> None:
    for done in (tokens(direction, str(folder), b"1\xff"), tokens(direction, str(folder), text=b"1\xff")):
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "tools/tokens: the text is not UTF-8 (byte 1)\n"


def test_an_untrusted_vocabulary_is_escaped(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[UNK]": 0, "a\x1b[2J\u202eb": 1, "c\nd\te": 2}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert tokens("decode", str(tmp_path), "1,2").stdout == "a\\x1b[2J\\u202eb c\nd\te\n"
    missing = tokens("decode", str(tmp_path / "\x1b[2J"), "1")
    assert "\x1b" not in missing.stderr


def test_a_closed_output_is_reported(folder: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", f"'{ROOT}/tools/tokens' encode '{folder}' the >&-"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "tools/tokens: standard output is closed\n"
