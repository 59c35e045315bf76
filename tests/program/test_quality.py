# SPDX-License-Identifier: Apache-2.0
"""The results of `quality` for a precision, compared with transformers on the same checkpoint and text."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoint
from built_program import Run

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds

TOKENS = 160
NEW = 16
FORMATS = ("fp32", "bf16", "int8", "int4", "llm_int8")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("checkpoint")
    return folder, tiny_checkpoint.write(folder)


@pytest.fixture(scope="module")
def text() -> list[int]:
    import torch

    torch.manual_seed(11)
    return [int(i) for i in torch.randint(tiny_checkpoint.VOCAB, (TOKENS,))]


def arguments(folder: Path, text: list[int], formats: str, activations: str = "default") -> tuple[str, ...]:
    return (
        f"--checkpoint={folder}",
        f"--text_ids={','.join(map(str, text))}",
        "--benchmark_filter=^quality/",
        f"--axis=quality.precision={formats}",
        f"--axis=quality.activations={activations}",
        "--axis=quality.group=32",
        f"--axis=quality.new={NEW}",
        "--benchmark_min_time=1x",
        "--benchmark_format=json",
    )


def rows_of(program: Path, flags: tuple[str, ...]) -> dict[str, dict[str, float]]:
    done = subprocess.run([str(program), *flags], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return {row["precision"]: row for row in json.loads(done.stdout)["benchmarks"]}


@pytest.fixture(scope="module")
def scored(checkpoint: tuple[Path, Any], text: list[int], program: Path) -> dict[str, dict[str, float]]:
    return rows_of(program, arguments(checkpoint[0], text, ",".join(FORMATS)))


def logits_of(model: Any, ids: list[int]) -> Any:
    import torch

    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double()


def perplexity_of(logits: Any, text: list[int]) -> float:
    import torch

    return math.exp(torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(text[1:])).item())


def test_fp32_is_what_transformers_says(
    checkpoint: tuple[Path, Any], text: list[int], scored: dict[str, dict[str, float]]
) -> None:
    row = scored["fp32"]
    assert row["perplexity"] == pytest.approx(perplexity_of(logits_of(checkpoint[1], text), text), rel=1e-4)
    assert row["perplexity_change"] == pytest.approx(0, abs=1e-5)
    assert row["kl_mean"] == pytest.approx(0, abs=1e-8)
    assert row["top1_agreement"] == 1
    assert row["greedy_agreement"] == NEW


def rounded(weight: Any) -> Any:
    """int8 with one scale per row, as in weight-only int8."""
    scale = weight.abs().amax(1, keepdim=True) / 127
    return (weight / scale).round() * scale


def test_int8_is_what_transformers_says_of_rounded_weights(
    checkpoint: tuple[Path, Any], text: list[int], scored: dict[str, dict[str, float]]
) -> None:
    import copy

    import torch

    _, model = checkpoint
    quantised = copy.deepcopy(model)
    for name, module in quantised.named_modules():
        if isinstance(module, torch.nn.Linear):
            assert "embed" not in name
            module.weight.data = rounded(module.weight.data)
    logits, exact = logits_of(quantised, text), logits_of(model, text)
    row, bf16 = scored["int8"], scored["bf16"]
    assert row["perplexity"] == pytest.approx(perplexity_of(logits, text), rel=0.01)
    p = exact[:-1].log_softmax(-1)
    divergence = (p.exp() * (p - logits[:-1].log_softmax(-1))).sum(-1).mean().item()
    # Ours also rounds activations to bf16, whose errors are others and add up.
    assert row["kl_mean"] == pytest.approx(divergence + bf16["kl_mean"], rel=0.2)


def test_kept_layers_are_what_transformers_says_of_the_others_rounded(
    checkpoint: tuple[Path, Any], text: list[int], scored: dict[str, dict[str, float]], program: Path
) -> None:
    import copy

    import torch

    keep = "o_proj+down_proj+lm_head"
    flags = (*arguments(checkpoint[0], text, "int8"), f"--axis=quality.keep={keep}")
    row = rows_of(program, flags)["int8"]
    _, model = checkpoint
    quantised = copy.deepcopy(model)
    for name, module in quantised.named_modules():
        if isinstance(module, torch.nn.Linear) and name.split(".")[-1] not in keep.split("+"):
            module.weight.data = rounded(module.weight.data)
    logits, exact = logits_of(quantised, text), logits_of(model, text)
    p = exact[:-1].log_softmax(-1)
    divergence = (p.exp() * (p - logits[:-1].log_softmax(-1))).sum(-1).mean().item()
    assert row["kl_mean"] == pytest.approx(divergence + scored["bf16"]["kl_mean"], rel=0.2)
    assert row["kl_mean"] < 0.8 * scored["int8"]["kl_mean"]
    assert f"/keep:{keep}/" in f"{row['name']}/"


def test_precisions_are_ordered_as_their_errors(scored: dict[str, dict[str, float]]) -> None:
    divergences = [scored[name]["kl_mean"] for name in ("fp32", "bf16", "int8", "int4")]
    assert divergences == sorted(divergences)
    assert scored["bf16"]["kl_mean"] < scored["llm_int8"]["kl_mean"] < scored["int4"]["kl_mean"]
    for row in scored.values():
        assert row["kl_mean"] <= row["kl_p99"]
        assert 0 <= row["greedy_agreement"] <= NEW
    assert scored["int4"]["top1_agreement"] < 1


def test_activations_in_8_bits_cost_what_transformers_says(
    checkpoint: tuple[Path, Any], text: list[int], scored: dict[str, dict[str, float]], program: Path
) -> None:
    import copy

    import torch

    def round_input(_: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        step = values[0].abs().amax(-1, keepdim=True) / 127
        return ((values[0] / step).round() * step,)

    row = rows_of(program, arguments(checkpoint[0], text, "int8", "int8"))["int8"]
    _, model = checkpoint
    quantised = copy.deepcopy(model)
    for module in quantised.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.data = rounded(module.weight.data)
            module.register_forward_pre_hook(round_input)
    logits, exact = logits_of(quantised, text), logits_of(model, text)
    p = exact[:-1].log_softmax(-1)
    divergence = (p.exp() * (p - logits[:-1].log_softmax(-1))).sum(-1).mean().item()
    # A last bit of bf16 decides about a step of 8 bits.
    assert row["kl_mean"] == pytest.approx(divergence + scored["bf16"]["kl_mean"], rel=0.3)
    assert row["perplexity"] == pytest.approx(perplexity_of(logits, text), rel=0.05)
    assert 1.2 * scored["int8"]["kl_mean"] < row["kl_mean"] < scored["int4"]["kl_mean"]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_cache_in_8_bits_costs_what_transformers_says(
    checkpoint: tuple[Path, Any], text: list[int], scored: dict[str, dict[str, float]], program: Path, precision: str
) -> None:
    import copy

    import torch
    from transformers import DynamicCache

    class RoundedCache(DynamicCache):
        """One scale per head and token, for keys and values."""

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            kept = []
            for rows in (key_states, value_states):
                step = rows.abs().amax(-1, keepdim=True) / 127
                kept.append((rows / step).round() * step)
            return super().update(kept[0], kept[1], layer_idx, *args, **kwargs)

    flags = (*arguments(checkpoint[0], text, precision), "--axis=quality.kv_cache=int8")
    row = rows_of(program, flags)[precision]
    _, model = checkpoint
    stored = copy.deepcopy(model)
    for module in stored.modules():
        if isinstance(module, torch.nn.Linear) and precision == "int8":
            module.weight.data = rounded(module.weight.data)
    with torch.no_grad():
        ids = torch.tensor([text])
        logits = stored(ids, past_key_values=RoundedCache(), use_cache=True).logits[0].double()
    exact = logits_of(model, text)
    p = exact[:-1].log_softmax(-1)
    divergence = (p.exp() * (p - logits[:-1].log_softmax(-1))).sum(-1).mean().item()
    beside = 0 if precision == "fp32" else scored["bf16"]["kl_mean"]
    assert row["kl_mean"] == pytest.approx(divergence + beside, rel=0.2)
    assert row["perplexity"] == pytest.approx(perplexity_of(logits, text), rel=0.01)
    assert row["kl_mean"] > scored[precision]["kl_mean"]


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        ("5", "--text_ids: at least 2 tokens are wanted"),
        ("1,2,96", "--text_ids: 96 is not a token of the checkpoint, which has 96"),
        ("one", "--text_ids=one: one: No such file or directory"),
    ],
)
def test_what_is_no_text_is_refused(checkpoint: tuple[Path, Any], run: Run, ids: str, why: str) -> None:
    done = run(f"--checkpoint={checkpoint[0]}", f"--text_ids={ids}", "--benchmark_filter=^quality/")
    assert done.returncode == 2
    assert why in done.stderr


def test_without_a_text_the_case_says_what_it_needs(checkpoint: tuple[Path, Any], run: Run) -> None:
    done = run(f"--checkpoint={checkpoint[0]}", "--benchmark_filter=^quality/.*int8", "--suite=full")
    assert "needs --checkpoint=FOLDER and --text_ids" in done.stdout + done.stderr
