# SPDX-License-Identifier: Apache-2.0
"""Cases that differ in one axis: the fastest implementation of each piece of work, the precision to serve in."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest
from roofreport.compare import axes
from roofreport.io import contract
from roofreport.io.load import load
from roofreport.io.result import Case, State
from roofreport.render import result_tables


def _measured(name: str, seconds: float, roof: float | None = None) -> Case:
    return Case(name, 0, State.MEASURED, seconds=seconds, counters={} if roof is None else {"roof": roof})


def test_winners_differ_from_others_in_the_implementation_alone() -> None:
    found = axes.winners(
        [
            _measured("norm/impl:eager/dtype:bf16/d:1", 3e-3, 0.2),
            _measured("norm/impl:eager/dtype:bf16/d:2", 4e-3, 0.3),
            _measured("mlp/dtype:bf16", 1e-3, 0.5),
            _measured("norm/impl:native/dtype:bf16/d:1", 1e-3, 0.6),
            _measured("norm/impl:onednn/dtype:bf16/d:1", 2e-3, 0.3),
            _measured("copy/impl:eager", 2e-3, 0.7),
            _measured("copy/impl:stream", 2.5e-3, 0.6),
            Case("gemv/impl:eager/d:1", 0, State.FAILED),
            _measured("gemv/impl:native/d:1", 1e-3, 0.5),
        ],
        contract.packaged(),
    )
    assert [one.work for one in found] == ["norm/dtype:bf16/d:1", "copy"]
    norm, copy = found
    assert norm.values == ("native", "onednn", "eager")
    assert norm.lead == pytest.approx(2)
    assert norm.cases[-1].name == "norm/impl:eager/dtype:bf16/d:1"
    assert copy.values[0] == "eager"


def test_a_default_implementation_is_not_in_the_name() -> None:
    described = builders.family("gelu", builders.axis("by", default="eager", role="impl"), builders.axis("n"))
    found = axes.winners(
        [_measured("gelu/n:1", 2e-3), _measured("gelu/by:native/n:1", 1e-3), _measured("other/n:1", 1.0)],
        contract.parse(builders.contract(described)),
    )
    assert [(one.work, one.values) for one in found] == [("gelu/n:1", ("native", "eager"))]


@pytest.mark.parametrize(("roof", "left"), [(None, "no roof known"), (1.02, "102.0 % of the roof, nothing left")])
def test_the_rest_of_the_roof(roof: float | None, left: str) -> None:
    cases = [_measured("norm/impl:a/d:1", 3e-3, roof), _measured("norm/impl:b/d:1", 1e-3, roof)]
    (found,) = axes.winners(cases, contract.packaged())
    assert left in [cell.text for cell in result_tables.winners_table([found]).rows[0]]


def test_precisions_of_one_generation_the_fastest_first(tmp_path: Path) -> None:
    rows = [
        builders.generation("a", "bf16", 50.0, 4e9),
        builders.generation("b", "bf16", 70.0, 4e9),
        builders.generation("a", "int8", 100.0, 2e9),
        builders.generation("a", "int4", 125.0, 1e9),
        builders.generation("b", "int8", 100.0, 2e9) | {"itl_ms": 0.0},
        builders.row("gemv/precision:int8/n:1", 1.0),
        builders.row("gemv/precision:int4/n:1", 1.0),
        builders.error_row("generate/model:b/precision:int4/new:8", "failed: no"),
    ]
    (choice,) = axes.precisions(load(builders.write_json(tmp_path / "a.json", rows)).cases)
    assert choice.work == "generate/model:a/new:8"
    assert choice.values == ("int4", "int8", "bf16")
    assert choice.lead == pytest.approx(1.25)
    table = result_tables.precision_table(choice)
    assert [cell.text for cell in table.rows[1]] == ["int8", "80 ms", "10 ms", "20 ms", "100.0", "2 GB"]
    assert "1.25x the tokens/s of int8 at 0.50 of its bytes" in table.legend[0]
