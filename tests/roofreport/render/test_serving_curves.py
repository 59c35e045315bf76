# SPDX-License-Identifier: Apache-2.0
"""Throughput against latency: which cases make a curve, and where its knee is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import builders
import pytest
from reports import Report
from roofreport.cli import main

# A decoder that reads its weights in 10 ms and multiplies a sequence in 2.5 ms: milliseconds by batch.
STEPS = {1: 10.0, 2: 10.0, 4: 10.0, 8: 20.0, 16: 40.0}


def _decode(
    batch: int, milliseconds: float, name: str = "decode/model:m/precision:bf16", **more: Any
) -> dict[str, Any]:
    known = {"tokens/s": 1e3 * batch / milliseconds, "model_bytes": 1e9, "roof": 0.5, "mbu_measured": 0.25, **more}
    return builders.row(f"{name}/batch:{batch}/depth:128", milliseconds, **known)


def _rate(value: float) -> dict[str, Any]:
    return {"tokens/s": value}


def test_the_knee_has_the_most_throughput_for_its_latency(tmp_path: Path, report: Report) -> None:
    rows = [_decode(batch, step) for batch, step in reversed(STEPS.items())]
    result = builders.write_json(tmp_path / "run.json", rows)
    lines = report("serving", result).splitlines()
    assert lines[0].split() == ["case", "batch", "latency", "tokens/s", "roof", "mbu_measured", "power"]
    assert [line.split()[1] for line in lines[2:7]] == ["1", "2", "4", "8", "16"]
    assert [line.endswith("knee") for line in lines[2:7]] == [False, False, True, False, False]
    # 4 sequences take as long as one, 8 twice as long: twice the throughput for twice the latency.
    assert [line.removesuffix("knee").split()[-1] for line in lines[2:7]] == [
        "1.00x",
        "2.00x",
        "4.00x",
        "2.00x",
        "1.00x",
    ]
    assert lines[-1] == "decode/model:m/precision:bf16/depth:128: knee at batch 4, 400 tokens/s at 10 ms a token"
    table = report.rows("serving", result)
    assert [float(row["latency"]) for row in table] == pytest.approx([step / 1e3 for step in STEPS.values()])
    assert {row["mbu_measured"] for row in table} == {"0.25"}


def test_no_knee_where_the_largest_batch_is_the_best(tmp_path: Path, report: Report) -> None:
    rows = [_decode(batch, STEPS[batch]) for batch in (1, 2, 4)]
    lines = report("serving", builders.write_json(tmp_path / "run.json", rows)).splitlines()
    assert not any(line.endswith("knee") for line in lines[2:5])
    assert "no knee up to batch 4, 400 tokens/s" in lines[-1]


def test_the_latency_of_a_generation_is_that_between_tokens(tmp_path: Path, report: Report) -> None:
    rows = [_decode(batch, 1000.0, "generate/model:m", itl_ms=step) for batch, step in STEPS.items()]
    table = report.rows("serving", builders.write_json(tmp_path / "run.json", rows))
    assert [float(row["latency"]) for row in table] == pytest.approx([step / 1e3 for step in STEPS.values()])


def test_a_picture_says_batch_and_shares_of_each_point(tmp_path: Path) -> None:
    rows = [_decode(batch, step) for batch, step in STEPS.items()]
    rows += [_decode(batch, 2 * step, "decode/model:m/precision:<b>") for batch, step in STEPS.items()]
    result = builders.write_json(tmp_path / "run.json", rows)
    assert main(["serving", str(result), f"--svg={tmp_path}/s.svg"]) == 0
    picture = (tmp_path / "s.svg").read_text()
    for text in ("batch 8, 400 tokens/s, 20 ms, roof 50 %, MBU 25 %", ">4 (50 %) knee<", ">16 (50 %)<"):
        assert text in picture
    assert "<b>" not in picture


@pytest.mark.parametrize(
    "rows",
    [
        [_decode(batch, STEPS[batch]) for batch in (1, 2)],
        [builders.error_row(f"decode/model:m/batch:{batch}", "skipped: needs 9 GiB of memory") for batch in STEPS],
        [builders.row(f"train_step/size:s/batch:{batch}", 10.0, **_rate(7.0)) for batch in STEPS],
        [_decode(batch, 10.0, **_rate(0.0)) for batch in STEPS],
    ],
)
def test_too_few_points_are_not_a_curve(tmp_path: Path, report: Report, rows: list[dict[str, Any]]) -> None:
    error = report.refused("serving", builders.write_json(tmp_path / "run.json", rows))
    assert "no generation was measured with 3 batches" in error
    assert "--axis=decode.batch=1:64:x2" in error
