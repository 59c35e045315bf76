# SPDX-License-Identifier: Apache-2.0
"""The cost of a long file grows linearly: counted in steps, not in seconds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import builders
import pytest
from roofreport.cli import main
from roofreport.io import contract, source
from roofreport.io.load import load
from roofreport.render import roofline


class _Key(str):
    """A key that counts its comparisons."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        _Key.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_key_given_twice_is_found_in_one_pass() -> None:
    _Key.compared = 0
    pairs = [(_Key(f"k{i}"), i) for i in range(2000)]
    with pytest.raises(source.StrictJsonError, match="'k1999' is given twice"):
        source._object([*pairs, (_Key("k1999"), 0)])
    assert _Key.compared < 10 * len(pairs)


def test_a_pattern_is_tried_once_a_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    matches = contract._Pattern.matches

    def counted(self: contract._Pattern, name: str) -> bool:
        nonlocal tried
        tried += 1
        return matches(self, name)

    monkeypatch.setattr(contract._Pattern, "matches", counted)
    found = []
    for count in (20, 400):
        tried = 0
        brought = json.dumps(builders.contract())
        rows = [builders.row(f"a/n:{n}", 1.0) | {"x_flop_util": 0.5, "own": 1.0} for n in range(count)]
        path = builders.write_json(tmp_path / "a.json", rows, contract=brought)
        assert main(["table", str(path)]) == 0
        found.append(tried)
    assert found[0] == found[1] > 0


def test_a_datasheet_is_found_in_one_pass_whatever_counters_are_called(tmp_path: Path) -> None:
    passes = 0

    class Counted(dict[str, float]):
        def items(self) -> Any:
            nonlocal passes
            passes += 1
            return super().items()

    rows = [
        builders.row(f"a/dtype:d{n}", 1.0) | {f"x{n}_{i}_flop_util": 0.5 for i in range(20)} | {"FLOP/s": 1e9}
        for n in range(50)
    ]
    result = load(builders.write_json(tmp_path / "a.json", rows))
    cases = [replace(case, counters=Counted(case.counters)) for case in result.merged().values()]
    roofline.datasheet_roofs(result, cases)
    assert passes == len(rows)


def test_long_lines_are_found_without_a_list_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LONGEST_LINE", 10)
    for length in range(25):
        for before in range(25):
            for after in (b"", b"\n", b"\nxyz\n"):
                data = b"-" * (before % 10) + b"\n" + b"\n" * before + b"x" * length + after
                longest = max(map(len, data.split(b"\n")))
                assert source._has_long_line(data) is (longest > 10), data
