# SPDX-License-Identifier: Apache-2.0
"""Tables on a narrow terminal: rows continue on further lines, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import builders
import pytest
from roofreport.cli import main
from roofreport.render import formats
from roofreport.render.formats import Cell, Table, figure, spanning, words

_WIDTH = 80
_LONG = "softmax/impl:native/dtype:bf16/rows:4096/d:4096/mask:causal/cache:warm/with:a_long_value/and:another"


def _rows(factor: float) -> list[dict[str, Any]]:
    phases = {f"{phase}_{kind}_ms": 12.5 for phase in ("forward", "backward") for kind in ("mean", "stddev")}
    step = {"tokens/s": 4321.0, "parameters": 1e8, "embedding_params": 1e6, "head_params": 2e6, "mfu_measured": 0.5}
    return [
        *builders.scaled(factor),
        builders.row(_LONG, 3.0 * factor, noisy=1.0, ci=0.4, roof=0.123) | {"bytes/s": 2e10},
        builders.row(_LONG.replace("native", "eager"), 2.0, ci=0.4),
        builders.error_row("huge/n:1", f"skipped: {'out of memory, as the operands need too much of it; ' * 4}"),
        builders.row("train_step/size:small/context:128/dtype:fp32/optimizer:adamw_foreach", 30.0) | phases | step,
        builders.row("train_step/size:medium/context:128/dtype:fp32/optimizer:adamw_foreach", 90.0)
        | phases
        | {**step, "parameters": 3e8},
        *(builders.row(f"matmul/impl:eager/dtype:fp32/n:{n}/with:another", n / 10) for n in (64, 128, 256)),
        builders.generation("llama", "bf16", 50.0, 4e9),
        builders.generation("llama", "int8", 100.0, 2e9),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        *("table BASE", "table BASE NEW", "table BASE --training", "params BASE", "compare BASE NEW"),
        *("spread BASE NEW", "summary BASE", "scaling BASE", "scaling BASE --points", "spread --samples JOURNAL"),
    ],
)
def test_every_table_fits(
    arguments: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "BASE": builders.write_json(tmp_path / "a.json", _rows(1.0)),
        "NEW": builders.write_json(tmp_path / "b.json", _rows(1.5)),
        "JOURNAL": tmp_path / "a.jsonl",
    }
    files["JOURNAL"].write_text(builders.journal_text(builders.header(), builders.line(_LONG, 1.0)))
    given = [str(files.get(word, word)) for word in arguments.split()]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(_WIDTH))
    main(given)
    narrow = capsys.readouterr().out
    # A command to copy stays on one line.
    assert not [line for line in narrow.splitlines() if len(line) > _WIDTH and not line.startswith("compare.py:")]
    monkeypatch.delenv("COLUMNS")
    main(given)
    wide = capsys.readouterr().out
    assert max(map(len, wide.splitlines())) > _WIDTH, "files and pipes have no limit"
    without = str.maketrans("", "", " -\n")
    assert Counter(narrow.translate(without)) == Counter(wide.translate(without))


def test_the_name_its_figures_and_the_note_have_their_own_lines() -> None:
    row = words("a/name:of/some:length"), figure(1.0, "{:.3f}".format), figure(22.0, "{:.1f}".format), words("a note")
    skipped = words("b"), spanning("no reason to say"), Cell(), Cell()
    table = Table(("case", "first", "second", "note"), (row, skipped))
    assert formats.terminal(table, 27).splitlines() == [
        "case",
        "  first  second  note",
        "---------------------",
        "a/name:of/some:length",
        "  1.000    22.0  a note",
        "b",
        "  no reason to say",
    ]
    assert formats.terminal(table, 47).splitlines()[2:] == [
        "a/name:of/some:length  1.000    22.0  a note",
        "b                      no reason to say",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("fits", ["fits"]),
        ("breaks after words", ["breaks", "  after", "  words"]),
        ("a/name/in/parts", ["a/name/", "  in/", "  parts"]),
        ("unbreakable_text", ["unbreaka", "  ble_te", "  xt"]),
    ],
)
def test_wrapped(text: str, lines: list[str]) -> None:
    assert formats.wrapped(text, 8) == lines
