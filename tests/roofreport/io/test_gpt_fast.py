# SPDX-License-Identifier: Apache-2.0
"""The published micro experiments: the mean over four sizes next to its target."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import builders
import pytest
from roofreport.io import gpt_fast
from roofreport.io.load import load

# Bytes a second of each size, and their mean: 250 GB/s.
_RATES = {"1024": 100e9, "4096": 200e9, "8192": 300e9, "16384": 400e9}


def _gemv(impl: str, sizes: dict[str, float], extra: str = "") -> list[dict[str, object]]:
    return [
        builders.row(f"gemv/impl:{impl}/precision:int8{extra}/n:{size}", 1.0) | {"bytes/s": rate}
        for size, rate in sizes.items()
    ]


def _experiments(path: Path) -> list[dict[str, str]]:
    found = list(csv.DictReader(io.StringIO(gpt_fast.text([load(path)]))))
    return [row for row in found if "(" in row["name"]]


def test_the_mean_over_four_sizes_stands_beside_the_target(tmp_path: Path) -> None:
    cases = _gemv("native", _RATES)
    # Another shape of the family, and an implementation that did not run every size, are not the experiment.
    cases += _gemv("native", {"4096": 9e9}, "/batch:8")
    cases += _gemv("eager", {"1024": 1e9, "4096": 1e9})
    (row,) = _experiments(builders.write_json(tmp_path / "a.json", cases))
    assert (row["name"], row["dtype"], row["metric"]) == ("gemv (native)", "int8", "memory_bandwidth(GB/s)")
    assert float(row["target"]) == 870
    assert float(row["actual"]) == pytest.approx(250)


def test_each_experiment_is_found_by_its_names(tmp_path: Path) -> None:
    counters: dict[str, dict[str, float]] = {}
    for experiment in gpt_fast.EXPERIMENTS:
        others = "".join(f"/{axis}:{value}" for axis, value in experiment.others)
        if experiment.counter == "a100_flop_util":
            continue
        for size in _RATES:
            name = f"{experiment.name}/impl:x{others}/{experiment.size_axis}:{size}"
            counters.setdefault(name, {})[experiment.counter] = 1.0
    cases = [builders.row(name, 1.0) | values for name, values in counters.items()]
    rows = _experiments(builders.write_json(tmp_path / "a.json", cases))
    assert len(rows) == len(gpt_fast.EXPERIMENTS) - 1
    assert len({(row["name"], row["dtype"], row["metric"]) for row in rows}) == len(rows)
    assert sum(not row["target"] for row in rows) == 2


def _utilization(tmp_path: Path, counters: dict[str, float]) -> list[tuple[str, str, float]]:
    cases = [builders.row(f"mlp_layer_norm_gelu/impl:x/d:{size}", 1.0) | counters for size in _RATES]
    found = _experiments(builders.write_json(tmp_path / "a.json", cases))
    return [(row["metric"], row["target"], float(row["actual"])) for row in found if "utilization" in row["metric"]]


def test_every_device_has_one_utilization(tmp_path: Path) -> None:
    of_a100 = {"a100_flop_util": 0.25}
    assert _utilization(tmp_path, of_a100) == [("flops_utilization(A100)", "", 0.25)]
    assert _utilization(tmp_path, {**of_a100, "flop_util": 0.5}) == [("flops_utilization", "", 0.5)]


def test_the_target_of_a_published_generation_is_its_own(tmp_path: Path) -> None:
    counters = {"tokens/s": 12.0, "e2e_tokens/s": 10.0, "target_e2e_tokens/s": 94.0, "parameters": 7e9}
    counters |= {"bytes/s": 50e9, "target_bytes/s": 1253e9}
    name = "published/experiment:gpt_fast_llama2_7b_bf16"
    path = builders.write_json(tmp_path / "a.json", [builders.row(name, 1.0) | counters])
    rows = csv.DictReader(io.StringIO(gpt_fast.text([load(path)])))
    assert [(row["metric"], row["target"], row["actual"], row["dtype"], row["is_model"]) for row in rows] == [
        ("token_per_sec", "94", "10", "bf16", "True"),
        ("memory_bandwidth(GB/s)", "1253", "50", "bf16", "True"),
    ]


def test_a_dtype_by_default_is_written(tmp_path: Path) -> None:
    """Names of cases omit defaults."""
    path = builders.write_json(
        tmp_path / "a.json", [builders.row("mlp_layer_norm_gelu/d:1024", 1.0) | {"bytes/s": 1.0}]
    )
    (row,) = csv.DictReader(io.StringIO(gpt_fast.text([load(path)])))
    assert row["dtype"] == "bf16"
