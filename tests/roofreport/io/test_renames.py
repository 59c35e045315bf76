# SPDX-License-Identifier: Apache-2.0
"""Older results are read with today's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import builders
import pytest
from roofreport.cli import main
from roofreport.io import contract
from roofreport.io.load import load
from roofreport.io.renames import note, today

_COMMITTED = sorted((builders.ROOT / "results").glob("*/2026-11-20.json"))


def _contract(**changes: Any) -> contract.Contract:
    norm = builders.family("norm", builders.axis("pass", default="forward"), builders.axis("d"))
    renames = [
        {"family": "self", "to": "overhead"},
        {"family": "norm", "axis": "mode", "to": "pass", "values": {"fwd": "forward", "fwd_bwd": "backward"}},
        {"family": "mlp", "axis": "dtype", "to": "dtype", "values": {"bf16": "autocast"}},
        {"family": "*", "axis": "pass", "values": {"both": "forward_backward"}},
        {"family": "overhead", "axis": "what", "to": "part"},
    ]
    return contract.parse(builders.contract(norm, renames=renames) | changes)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("self/what:sampler", "overhead/part:sampler"),
        ("norm/mode:fwd_bwd/d:1", "norm/pass:backward/d:1"),
        ("norm/mode:fwd/d:1", "norm/d:1"),  # a default is left out
        ("norm/mode:other/d:1", "norm/pass:other/d:1"),
        ("norm/pass:both/d:1", "norm/pass:forward_backward/d:1"),
        ("mlp/dtype:bf16/d:1", "mlp/dtype:autocast/d:1"),
        ("mlp/dtype:fp32/d:1", "mlp/dtype:fp32/d:1"),
        ("matmul/dtype:bf16/n:1", "matmul/dtype:bf16/n:1"),
        ("selfish/n:1", "selfish/n:1"),
    ],
)
def test_names(before: str, after: str) -> None:
    name, changes = today(before, _contract())
    assert name == after
    assert bool(changes) == (before != after)
    assert today(after, _contract()) == (after, [])


def test_the_note_is_one_line_of_bounded_length() -> None:
    assert note([]) == ""
    assert note(["a is b", "a is b"]) == "read with today's names: a is b"
    assert note([f"a{i} is b" for i in range(9)]).endswith("a5 is b and 3 more")


def test_a_contract_of_an_older_version_keeps_what_it_alone_has(tmp_path: Path) -> None:
    own = builders.family("mine", builders.axis("n"), growth={"n": 1.0})
    gone = builders.family("self", builders.axis("what"))
    older = builders.contract(own, gone, version=0)
    rows = [builders.row("self/what:sampler", 1.0), builders.row("mine/n:1", 1.0)]
    # The schema has no version 0: the version of the packaged contract is what counts.
    older["version"] = 1
    path = builders.write_json(tmp_path / "a.json", rows, contract=json.dumps(older))
    newer = contract.parse(builders.contract(version=2, renames=[{"family": "self", "to": "overhead"}]))
    read = newer.over(contract.parse(older))
    assert set(read.families) == {"mine"}
    assert load(path).names() == ["self/what:sampler", "mine/n:1"], "of the same version: nothing is renamed"


@pytest.mark.parametrize("path", _COMMITTED, ids=lambda path: path.parent.name)
def test_committed_results_have_todays_names(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert f"{path}: read with today's names: " in captured.err
    assert "dtype:bf16 of mlp is dtype:bf16_autocast" in captured.err
    assert "self is harness_overhead" in captured.err
    for name in ("harness_overhead/what:sampler", "mlp/dtype:bf16_autocast/steps:2/layers:4/batch:256/d:256"):
        assert any(line.startswith(f"{name} ") for line in captured.out.splitlines()), name
    assert "mlp/dtype:bf16/" not in captured.out

    assert main(["compare", str(path), str(path)]) == 0
    assert "67 cases: 67 SAME" in capsys.readouterr().out
    assert main(["scaling", str(path)]) == 0
    assert "mlp/dtype:bf16_autocast/layers:4/batch:256/d:256: steps^" in capsys.readouterr().out


def test_there_is_a_committed_result() -> None:
    assert _COMMITTED


def test_old_and_new_results_are_compared_by_todays_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = builders.write_json(tmp_path / "old.json", [builders.row("train_step/mode:fwd_bwd/size:small", 10.0)])
    described = json.dumps(json.loads(contract.PACKAGED.read_text()))
    rows = [builders.row("train_step/pass:forward_backward/size:small", 20.0)]
    new = builders.write_json(tmp_path / "new.json", rows, contract=described)
    assert main(["compare", str(old), str(new)]) == 1
    captured = capsys.readouterr()
    assert "1 case: 1 SLOWER" in captured.out
    assert captured.err.count("today's names") == 1
