# SPDX-License-Identifier: Apache-2.0
"""tools/tokens encodes and decodes by a checkpoint's tokenizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tokens(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "tools" / "tokens"), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


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


def test_errors_name_the_reason(folder: Path, tmp_path: Path) -> None:
    missing = tokens("encode", str(tmp_path / "nowhere"), "x")
    assert missing.returncode != 0
    assert "tokenizer.json is missing" in missing.stderr
    wrong = tokens("decode", str(folder), "1,b")
    assert wrong.returncode != 0
    assert "expected whole numbers" in wrong.stderr
    (folder / "tokenizer.json").write_text("{")
    assert tokens("encode", str(folder), "x").returncode != 0
