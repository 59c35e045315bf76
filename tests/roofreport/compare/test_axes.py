# SPDX-License-Identifier: Apache-2.0
"""Cases that differ in one axis: the fastest implementation of each piece of work, the precision to serve in."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import builders
import pytest
from roofreport.compare import axes
from roofreport.io import contract
from roofreport.io.load import load
from roofreport.io.result import Case, State
from roofreport.render import result_tables
from roofreport.stats import places


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


def _placed(impl: str, seconds: float, handover: float | None) -> Case:
    counters = {} if handover is None else {"handover_ns": handover}
    return Case(f"norm/impl:{impl}/d:1", 0, State.MEASURED, seconds=seconds, counters=counters)


@pytest.mark.parametrize(
    ("seconds", "handover", "doubt"),
    [
        (1.3e-3, 220.0, "threads 50 ns apart, and 220 ns"),
        (1.3e-3, 60.0, ""),
        (1.3e-3, None, ""),
        (1.7e-3, 220.0, ""),  # more than places explain
    ],
)
def test_a_small_lead_of_threads_in_another_place_is_in_doubt(
    seconds: float, handover: float | None, doubt: str
) -> None:
    (found,) = axes.winners([_placed("native", 1e-3, 50.0), _placed("eager", seconds, handover)], contract.packaged())
    assert found.doubt == doubt
    assert bool(found.unranked) == bool(doubt)


@pytest.mark.parametrize("handover", [60.0, 220.0])
def test_a_ratio_to_a_baseline_in_another_place_is_no_figure(handover: float) -> None:
    cases = {case.name: case for case in (_placed("native", 1e-3, 50.0), _placed("eager", 2e-3, handover))}
    found = axes.speedups("impl:eager", cases, contract.packaged())
    assert found["norm/impl:native/d:1"] == (pytest.approx(2) if handover < 100 else None)
    assert bool(places.legend([*cases.values()])) == (handover > 100), "a table says why"


@pytest.mark.parametrize(("roof", "left"), [(None, "no roof known"), (1.02, "102.0 % of the roof, nothing left")])
def test_the_rest_of_the_roof(roof: float | None, left: str) -> None:
    cases = [_measured("norm/impl:a/d:1", 3e-3, roof), _measured("norm/impl:b/d:1", 1e-3, roof)]
    (found,) = axes.winners(cases, contract.packaged())
    assert left in [cell.text for cell in result_tables.winners_table([found]).rows[0]]


def test_precisions_of_one_generation_the_fastest_first() -> None:
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
    (choice,) = _precisions(rows)
    assert choice.work == "generate/model:a/new:8"
    assert choice.values == ("int4", "int8", "bf16")
    assert choice.lead == pytest.approx(1.25)
    table = result_tables.precision_table(choice, contract.packaged())
    assert [cell.text for cell in table.rows[1]] == ["int8", "80 ms", "10 ms", "20 ms", "100", "2 GB"]
    assert "1.25x the tokens/s of int8 at 0.50 of its bytes" in table.legend[0]
    assert table.legend[1].startswith("by speed alone"), "the text of random weights is nobody's"


def _precisions(rows: list[dict[str, Any]]) -> list[axes.Precisions]:
    with tempfile.TemporaryDirectory() as folder:
        cases = load(builders.write_json(Path(folder) / "a.json", rows)).cases
    return axes.precisions(cases, contract.packaged())


def _score(axis: str, rate: float, divergence: float) -> dict[str, Any]:
    scores = {"perplexity": 12.5, "kl_mean": divergence, "top1_agreement": 0.985}
    return (
        builders.row(f"quality/{axis}/new:64", 10.0) | {"tokens/s": rate, "model_bytes": 1e9, "peak_mem": 2e9} | scores
    )


def _renamed(row: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return row | {key: row[key].replace(old, new) for key in ("name", "run_name")}


_SCORES = [
    _score("precision:bf16", 50.0, 0.0004),
    _score("precision:int8", 100.0, 0.002),
    _score("precision:int4", 125.0, 0.24),
    _score("precision:int4/keep:lm_head", 120.0, 0.11),
    _score("impl:eager/precision:fp8", 2.0, 0.01),
]


def test_a_scored_text_has_speed_memory_and_quality_in_one_table() -> None:
    (choice,) = _precisions(_SCORES)
    assert choice.values == ("int4", "int8", "bf16", "fp8 (eager)")
    table = result_tables.precision_table(choice, contract.packaged())
    headers = ("tokens/s", "weights", "memory", "perplexity", "kl_mean", "top1_agreement")
    assert table.headers == ("quality/new:64", *headers)
    assert [cell.text for cell in table.rows[0]] == ["int4", "125", "1 GB", "2 GB", "12.5", "0.24 nats", "98.5 %"]
    closest = "closest to the checkpoint: bf16, kl_mean 0.0004 nats; int8 0.002, fp8 (eager) 0.01, int4 0.24"
    assert table.legend[1] == closest
    assert result_tables.serve_in(choice).endswith(closest)


def test_a_generation_has_the_score_of_what_it_stores() -> None:
    rows = [builders.generation("checkpoint", "bf16", 50.0, 4e9), builders.generation("checkpoint", "int4", 125.0, 1e9)]
    kept = [_renamed(row, "/new", "/keep:lm_head/new") for row in rows]
    others = [_renamed(row, "checkpoint", "llama2_7b") for row in rows]
    found = {one.work: one for one in _precisions([*rows, *kept, *others, *_SCORES])}
    scores = {
        work: [score.counters["kl_mean"] if score else None for score in one.scores] for work, one in found.items()
    }
    assert scores == {
        "generate/model:checkpoint/new:8": [0.24, 0.0004],
        "generate/model:checkpoint/keep:lm_head/new:8": [0.11, None],
        "generate/model:llama2_7b/new:8": [None, None],
        "quality/new:64": [0.24, 0.002, 0.0004, 0.01],
    }
    table = result_tables.precision_table(found["generate/model:checkpoint/new:8"], contract.packaged())
    assert table.headers[1:3] == ("first token", "next token") and table.headers[-2:] == ("kl_mean", "top1_agreement")


def test_the_fastest_implementation_serves_a_precision() -> None:
    rows = [builders.generation("m", precision, rate, 1e9) for precision, rate in (("bf16", 50), ("int8", 90))]
    eager = _renamed(builders.generation("m", "bf16", 60.0, 1e9), "generate/", "generate/impl:eager/")
    (choice,) = _precisions([*rows, eager])
    assert choice.values == ("int8", "bf16 (eager)")
