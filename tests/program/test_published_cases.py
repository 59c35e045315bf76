# SPDX-License-Identifier: Apache-2.0
"""The published generations: the counters that are compared with published figures."""

from __future__ import annotations

import json

import pytest
from built_program import NO_ROOFS, Run

TINY = ("--axis=published.model=tiny_llama", "--axis=published.new=3", "--axis=published.activations=default")
QUICK = ("--suite=full", "--benchmark_min_time=1x", "--warmup_iters=0", "--threads=1", *NO_ROOFS)


def test_the_counters_of_published_generations(run: Run) -> None:
    names = "gpt_fast_[a-z0-9_]+|int8_benchmark|bitsandbytes_bf16"
    filter_ = f"--benchmark_filter=^published/impl:eager/experiment:({names})/"
    thresholds = "--axis=published.outliers=experiment,0.5,0"
    done = run(*TINY, *QUICK, filter_, thresholds, "--benchmark_format=json")
    rows = {row["name"].split("experiment:")[1]: row for row in json.loads(done.stdout)["benchmarks"]}
    for name, tokens, gigabytes in (
        ("llama2_7b_bf16", 94, 1253),
        ("llama2_7b_int8", 144, 957),
        ("mixtral_8x7b_int8", 175, 1130),
    ):
        row = rows[f"gpt_fast_{name}/model:tiny_llama/new:3/activations:default"]
        assert (row["target_e2e_tokens/s"], row["target_bytes/s"]) == (tokens, gigabytes * 1e9)
        assert row["attention_backend"] in (0, 1), "a processor has two"
    row = rows["bitsandbytes_bf16/model:tiny_llama/new:3/activations:default"]
    assert not {"target_bytes/s", "script_tokens"} & row.keys()
    row = rows["int8_benchmark/model:tiny_llama/new:3/activations:default"]
    assert row["script_tokens"] == 16 + 3
    assert row["script_tokens/s"] / row["e2e_tokens/s"] == pytest.approx((16 + 3) / (8 * 3))
    assert not [counter for counter in row if counter.startswith("target_")]
    columns = {
        value: rows[f"int8_benchmark/model:tiny_llama/new:3/outliers:{value}/activations:default"]["outlier_columns"]
        for value in ("0.5", "0")
    }
    assert columns["0"] == 0 < columns["0.5"]


def test_the_script_of_llm_int8_generates_128_tokens_in_fp16(run: Run) -> None:
    filter_ = "--benchmark_filter=^published/impl:eager/experiment:int8_benchmark/"
    axes = ("--axis=published.model=tiny_llama", "--axis=published.activations=published,default,fp16")
    done = run(*axes, *QUICK, filter_, "--benchmark_format=json", "--check=off")
    rows = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        shown = row["name"].partition("/activations:")[2]
        rows[shown.split("/")[0] or "published"] = row
    assert rows["default"]["script_tokens"] == 16 + 128
    # A processor without fp16 arithmetic skips it.
    assert ("error_message" in rows["published"]) == ("error_message" in rows["fp16"])
