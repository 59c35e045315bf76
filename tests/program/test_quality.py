# SPDX-License-Identifier: Apache-2.0
"""`quality` scores a text as transformers does, with weights, activations and caches rounded in PyTorch."""

from __future__ import annotations

import copy
import json
import math
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoint
from built_program import NO_ROOFS, ROOT

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds

TOKENS = 160
NEW = 16
KEEP = "o_proj+down_proj+lm_head"
AXES = {
    "precision": "fp32,bf16,int8,int4,llm_int8",
    "keep": f"none,{KEEP}",
    "activations": "default,int8",
    "kv_cache": "default,int8",
    "group": "32",
    "new": str(NEW),
}
# At most one of them differs from its default.
CASES = f"^quality/precision:[a-z0-9_]+/group:32/((keep|activations|kv_cache):[^/]+/)?new:{NEW}$"
Row = dict[str, Any]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("checkpoint")
    return folder, tiny_checkpoint.write(folder)


@pytest.fixture(scope="module")
def model(checkpoint: tuple[Path, Any]) -> Any:
    return checkpoint[1]


@pytest.fixture(scope="module")
def text() -> list[int]:
    import torch

    torch.manual_seed(11)
    return [int(i) for i in torch.randint(tiny_checkpoint.VOCAB, (TOKENS,))]


def rows_of(
    folder: Path, text: list[int], program: Path, axes: dict[str, str], cases: str = "^quality/"
) -> dict[str, Row]:
    """By the axes of its name, without those that all cases share."""
    flags = (f"--checkpoint={folder}", f"--text_ids={','.join(map(str, text))}")
    chosen = (f"--axis=quality.{axis}={values}" for axis, values in axes.items())
    quick = (
        f"--benchmark_filter={cases}",
        "--benchmark_min_time=1x",
        "--benchmark_format=json",
        "--threads=1",
        *NO_ROOFS,
    )
    done = subprocess.run([program, *flags, *chosen, *quick], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        shown = [axis for axis in row["name"].split("/")[1:] if not axis.startswith(("group:", "new:"))]
        found["/".join(shown)] = row
    return found


@pytest.fixture(scope="module")
def rows(checkpoint: tuple[Path, Any], text: list[int], program: Path) -> dict[str, Row]:
    return rows_of(checkpoint[0], text, program, AXES, CASES)


def logits_of(model: Any, ids: list[int], **more: Any) -> Any:
    import torch

    with torch.no_grad():
        return model(torch.tensor([ids]), **more).logits[0].double()


def perplexity_of(logits: Any, text: list[int]) -> float:
    import torch

    return math.exp(torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(text[1:])).item())


def divergence_of(logits: Any, exact: Any) -> float:
    p = exact[:-1].log_softmax(-1)
    return float((p.exp() * (p - logits[:-1].log_softmax(-1))).sum(-1).mean().item())


def rounded(values: Any) -> Any:
    """8 bits with one scale per row."""
    scale = values.abs().amax(-1, keepdim=True) / 127
    return (values / scale).round() * scale


def in_fp8(values: Any) -> Any:
    """e4m3, whose largest number is 448, with one scale per row."""
    import torch

    scale = values.abs().amax(-1, keepdim=True) / 448
    return (values / scale).to(torch.float8_e4m3fn).to(values.dtype) * scale


def with_rounded_weights(model: Any, keep: str = "", to: Callable[[Any], Any] = rounded) -> Any:
    import torch

    quantized = copy.deepcopy(model)
    for name, module in quantized.named_modules():
        if isinstance(module, torch.nn.Linear) and name.split(".")[-1] not in keep.split("+"):
            module.weight.data = to(module.weight.data)
    return quantized


def assert_scored(
    row: Row, logits: Any, exact: Any, text: list[int], more: float, *, kl: float, perplexity: float = 0.01
) -> None:
    """`more` is the divergence of other roundings, which adds up."""
    assert row["perplexity"] == pytest.approx(perplexity_of(logits, text), rel=perplexity)
    assert row["kl_mean"] == pytest.approx(divergence_of(logits, exact) + more, rel=kl)


def test_fp32_equals_transformers(model: Any, text: list[int], rows: dict[str, Row]) -> None:
    row = rows["precision:fp32"]
    assert row["perplexity"] == pytest.approx(perplexity_of(logits_of(model, text), text), rel=1e-4)
    assert row["perplexity_change"] == pytest.approx(0, abs=1e-5)
    assert row["kl_mean"] == pytest.approx(0, abs=1e-8)
    assert row["top1_agreement"] == 1
    assert row["greedy_agreement"] == NEW


@pytest.fixture(scope="module")
def eager_rows(checkpoint: tuple[Path, Any], text: list[int], program: Path) -> dict[str, Row]:
    axes = {"impl": "eager", "precision": "bf16,fp8", "keep": AXES["keep"], "new": "1"}
    cases = f"^quality/impl:eager/precision:(bf16|fp8(/keep:{re.escape(KEEP)})?)/new:1$"
    rows = rows_of(checkpoint[0], text, program, axes, cases)
    return {name.removeprefix("impl:eager/"): row for name, row in rows.items()}


@pytest.mark.parametrize(
    ("precision", "to", "scored"), [("int8", rounded, "rows"), ("fp8", in_fp8, "eager_rows")], ids=["int8", "fp8"]
)
def test_rounded_weights_cost_as_in_transformers(
    model: Any, text: list[int], request: pytest.FixtureRequest, precision: str, to: Callable[[Any], Any], scored: str
) -> None:
    rows: dict[str, Row] = request.getfixturevalue(scored)
    exact = logits_of(model, text)
    # Ours also rounds activations to bf16.
    bf16 = rows["precision:bf16"]["kl_mean"]
    whole = rows[f"precision:{precision}"]
    assert_scored(whole, logits_of(with_rounded_weights(model, to=to), text), exact, text, bf16, kl=0.2)
    kept = rows[f"precision:{precision}/keep:{KEEP}"]
    assert_scored(kept, logits_of(with_rounded_weights(model, KEEP, to), text), exact, text, bf16, kl=0.2)
    assert kept["kl_mean"] < 0.9 * whole["kl_mean"]


def test_numbers_of_fp8_have_fewer_bits_than_those_of_int8(rows: dict[str, Row], eager_rows: dict[str, Row]) -> None:
    assert rows["precision:int8"]["kl_mean"] < eager_rows["precision:fp8"]["kl_mean"]


def test_precisions_are_ordered_as_their_errors(rows: dict[str, Row]) -> None:
    scored = {name: rows[f"precision:{name}"] for name in AXES["precision"].split(",")}
    divergences = [scored[name]["kl_mean"] for name in ("fp32", "bf16", "int8", "int4")]
    assert divergences == sorted(divergences)
    assert scored["bf16"]["kl_mean"] < scored["llm_int8"]["kl_mean"] < scored["int4"]["kl_mean"]
    for row in scored.values():
        assert row["kl_mean"] <= row["kl_p99"] <= row["kl_max"]
        assert 0 <= row["greedy_agreement"] <= NEW
    assert scored["int4"]["top1_agreement"] < 1


def test_activations_in_8_bits_cost_as_in_transformers(model: Any, text: list[int], rows: dict[str, Row]) -> None:
    import torch

    quantized = with_rounded_weights(model)
    for module in quantized.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, values: (rounded(values[0]),))
    row = rows["precision:int8/activations:int8"]
    bf16, exact = rows["precision:bf16"]["kl_mean"], logits_of(model, text)
    # A last bit of bf16 decides about a step of 8 bits.
    assert_scored(row, logits_of(quantized, text), exact, text, bf16, kl=0.3, perplexity=0.05)
    assert 1.2 * rows["precision:int8"]["kl_mean"] < row["kl_mean"] < rows["precision:int4"]["kl_mean"]


def test_experts_cost_as_in_transformers(
    text: list[int], tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token takes every expert: where the last bit decides between two, it decides about most of the divergence."""
    import torch

    model = tiny_checkpoint.write(tmp_path, "Mixtral", num_local_experts=4, num_experts_per_tok=4)
    model.config._experts_implementation = "eager"
    exact = logits_of(model, text)
    routers = [module for name, module in model.named_modules() if name.endswith("mlp.gate")]
    linear = torch.nn.functional.linear

    def quantized(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        if any(weight is router.weight for router in routers):
            return linear(x, weight, bias)
        return linear(rounded(x), rounded(weight), bias)

    monkeypatch.setattr(torch.nn.functional, "linear", quantized)
    expected = divergence_of(logits_of(model, text), exact)
    monkeypatch.undo()
    rows = rows_of(tmp_path, text, program, {"precision": "bf16,int8", "activations": "default,int8", "new": "1"})
    bf16, int8 = rows["precision:bf16"]["kl_mean"], rows["precision:int8/activations:int8"]["kl_mean"]
    assert int8 == pytest.approx(expected + bf16, rel=0.3)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_cache_in_8_bits_costs_as_in_transformers(
    model: Any, text: list[int], rows: dict[str, Row], precision: str
) -> None:
    import torch
    from transformers import DynamicCache

    class RoundedCache(DynamicCache):
        """One scale per head and token, for keys and values."""

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            return super().update(rounded(key_states), rounded(value_states), layer_idx, *args, **kwargs)

    stored = with_rounded_weights(model) if precision == "int8" else model
    row = rows[f"precision:{precision}/kv_cache:int8"]
    logits = logits_of(stored, text, past_key_values=RoundedCache(), use_cache=True)
    bf16 = 0 if precision == "fp32" else rows["precision:bf16"]["kl_mean"]
    assert_scored(row, logits, logits_of(model, text), text, bf16, kl=0.2)
    assert row["kl_mean"] > rows[f"precision:{precision}"]["kl_mean"]


def test_the_line_and_the_table_have_speed_memory_and_quality(
    checkpoint: tuple[Path, Any], text: list[int], program: Path, tmp_path: Path
) -> None:
    """As docs/serving.md runs it: generations and scores of one checkpoint, fp8 among them."""
    scored = "(impl:eager/precision:fp8|precision:(bf16|int4))/group:32/new:"
    filter_ = f"^(generate/model:checkpoint/.*prompt:32/|quality/{scored})"
    result = tmp_path / "quality.json"
    flags = (
        f"--checkpoint={checkpoint[0]}",
        f"--text_ids={','.join(map(str, text[:16]))}",
        f"--benchmark_filter={filter_}",
        "--axis=generate.model=checkpoint",
        *("--axis=generate.group=32", "--axis=quality.group=32", "--axis=quality.new=1"),
        *("--benchmark_min_time=1x", "--threads=1", f"--benchmark_out={result}", *NO_ROOFS),
    )
    done = subprocess.run([program, *flags], capture_output=True, text=True, timeout=600, check=True)
    answers = re.findall(r"tokens/s, perplexity [\d.]+, kl_mean \S+ nats, top1_agreement [\d.]+ %", done.stdout)
    assert len(answers) == 3, done.stdout
    report = [str(ROOT / "tools" / "report"), "summary", str(result)]
    wide = os.environ | {"COLUMNS": "250"}
    tables = subprocess.run(report, env=wide, capture_output=True, text=True, timeout=600, check=True).stdout
    for work, columns, rows in (
        ("generate/model:checkpoint/group:32/prompt:32/new:8", ["first token", "tokens/s", "memory"], ["bf16", "int4"]),
        ("quality/group:32/new:1", ["tokens/s", "weights", "memory"], ["bf16", "int4", "fp8 (eager)"]),
    ):
        table = tables[tables.index(work) :].partition("closest to the checkpoint")[0]
        assert all(column in table.splitlines()[0] for column in [*columns, "perplexity", "kl_mean", "top1_agreement"])
        for row in rows:
            assert re.search(rf"^  {re.escape(row)}  .* nats ", table, re.MULTILINE), tables
