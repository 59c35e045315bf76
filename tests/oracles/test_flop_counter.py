# SPDX-License-Identifier: Apache-2.0
"""The FLOPs that a case reports are those that torch.utils.flop_counter counts on meta tensors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_transformer
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "bin" / "roofbench"
PARAMETERS = ROOT / "build" / "release" / "bin" / "transformer_parameters"

pytestmark = pytest.mark.slow  # importing torch takes seconds


def run_cases(tmp_path: Path, *flags: str, suite: str = "quick") -> list[dict[str, Any]]:
    """The journal's lines of the cases that the flags choose, each after a single step."""
    journal = tmp_path / "run.jsonl"
    short = (f"--suite={suite}", "--benchmark_min_time=1x", "--warmup_iters=0")
    command = [str(PROGRAM), *flags, *short, f"--journal={journal}"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    lines = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert lines
    return lines


def reported_flops(tmp_path: Path, *flags: str, suite: str = "quick") -> dict[str, dict[str, float]]:
    """FLOPs by precision of each case that the flags choose."""
    return {line["name"]: line["flops_by_precision"] for line in run_cases(tmp_path, *flags, suite=suite)}


@pytest.mark.parametrize(("m", "n", "k"), [(16, 48, 80), (1, 64, 32)])
def test_matmul(tmp_path: Path, m: int, n: int, k: int) -> None:
    flags = [f"--axis=matmul.{axis}={size}" for axis, size in (("m", m), ("n", n), ("k", k))]
    reported = reported_flops(tmp_path, "--benchmark_filter=^matmul/impl:eager/dtype:bf16/", *flags).values()
    with FlopCounterMode(display=False) as counter:
        torch.empty(m, k, device="meta") @ torch.empty(k, n, device="meta")
    assert [*reported] == [{"bf16": counter.get_total_flops()}] * len(reported)


@pytest.mark.parametrize(("batch", "width", "layers", "steps"), [(8, 16, 3, 1), (4, 32, 1, 2)])
def test_mlp_forward_and_backward(tmp_path: Path, batch: int, width: int, layers: int, steps: int) -> None:
    sizes = {"batch": batch, "d": width, "layers": layers, "steps": steps}
    flags = [f"--axis=mlp.{axis}={size}" for axis, size in sizes.items()]
    (flops,) = reported_flops(tmp_path, "--benchmark_filter=mlp/dtype:bf16_autocast", *flags).values()
    linears = [torch.nn.Linear(width, width, device="meta") for _ in range(layers)]
    network = torch.nn.Sequential(*[module for linear in linears for module in (linear, torch.nn.GELU())])
    with FlopCounterMode(display=False) as counter:
        for _ in range(steps):
            network(torch.empty(batch, width, device="meta")).sum().backward()
    # The products run in bf16 under autocast; element-wise work, which torch does not count, in fp32.
    assert flops["bf16"] == counter.get_total_flops()


SHAPE = torch_transformer.Shape(d_model=96, d_ff=160, layers=2, heads=3, vocab=70, context=16)
BATCH = 2


def training_flags(context: int = SHAPE.context) -> list[str]:
    sizes = {name: getattr(SHAPE, name) for name in ("d_model", "d_ff", "layers", "heads", "vocab")}
    return [f"--axis=train_step.{axis}={size}" for axis, size in {**sizes, "context": context, "batch": BATCH}.items()]


def counted_flops(shape: torch_transformer.Shape, which: str, naive: bool) -> int:
    with torch.device("meta"):
        model = torch_transformer.Transformer(shape, naive)
        tokens = torch.zeros(BATCH, shape.context, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        loss = model.loss(tokens, tokens)
        if which == "forward_backward":
            loss.backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


@pytest.mark.parametrize("dtype", ["bf16", "bf16_autocast"])
@pytest.mark.parametrize("which", ["inference", "forward", "forward_backward"])
def test_transformer(tmp_path: Path, which: str, dtype: str) -> None:
    chosen = f"--benchmark_filter=train_step/impl:eager/pass:{which}/size:small/context:16/dtype:{dtype}/"
    flags = [chosen, *training_flags(), "--axis=train_step.attention=naive", f"--axis=train_step.pass={which}"]
    (flops,) = reported_flops(tmp_path, *flags, suite="full").values()
    assert flops["bf16"] == counted_flops(SHAPE, which, naive=True)


def test_transformer_counts_no_masked_half(tmp_path: Path) -> None:
    """The fused kernel skips what the mask hides; torch's counter takes it in full."""
    chosen = "--benchmark_filter=train_step/impl:eager/pass:inference/size:small/context:16/dtype:bf16_autocast"
    (flops,) = reported_flops(
        tmp_path, chosen, *training_flags(), "--axis=train_step.pass=inference", suite="full"
    ).values()
    full = counted_flops(SHAPE, "inference", naive=True)
    attention = 4 * BATCH * SHAPE.layers * SHAPE.d_model * SHAPE.context**2
    assert flops["bf16"] == full - attention + attention * (SHAPE.context + 1) / (2 * SHAPE.context)


def measured_counters(
    tmp_path: Path, case: str, context: int, which: str, attention: str, *more: str
) -> dict[str, float]:
    """The counters of the first training case that `case` chooses."""
    flags = [f"--benchmark_filter=train_step/{case}", *training_flags(context)]
    flags += [f"--axis=train_step.pass={which}", f"--axis=train_step.attention={attention}", *more]
    counters: dict[str, float] = run_cases(tmp_path, *flags, suite="full")[0]["counters"]
    return counters


@pytest.mark.parametrize("impl", ["eager", "native"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "bf16_autocast"])
@pytest.mark.parametrize("context", [64, 256])
def test_transformer_memory_is_predicted(tmp_path: Path, impl: str, dtype: str, context: int) -> None:
    chosen = f"impl:{impl}/size:small/context:{context}/dtype:{dtype}/"
    given = (f"--axis=train_step.impl={impl}", f"--axis=train_step.dtype={dtype}")
    counters = measured_counters(tmp_path, chosen, context, "step", "sdpa", *given)
    for part in ("parameter_mem", "gradient_mem", "optimizer_mem", "activation_mem"):
        assert counters[f"predicted_{part}"] == pytest.approx(counters[part], rel=0.1), part
    assert counters["predicted_mem"] == pytest.approx(counters["peak_mem"], rel=0.1)


@pytest.mark.parametrize("impl", ["eager", "native"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16_autocast"])
@pytest.mark.parametrize("attention", ["sdpa", "naive"])
@pytest.mark.parametrize("which", ["inference", "forward"])
def test_forward_memory_is_predicted(tmp_path: Path, impl: str, dtype: str, attention: str, which: str) -> None:
    """Forward-only memory in addition to the parameters, where the products are a large part."""
    chosen = f"impl:{impl}/pass:{which}/size:small/context:256/dtype:{dtype}/"
    counters = measured_counters(tmp_path, chosen, 256, which, attention)
    beside = counters["peak_mem"] - counters["parameter_mem"]
    assert counters["predicted_mem"] - counters["parameter_mem"] == pytest.approx(beside, rel=0.1)


def test_the_mean_of_the_logits_keeps_none_of_them(tmp_path: Path) -> None:
    """The axis reaches the model as it does the prediction."""
    kept = {}
    for objective in ("cross_entropy", "mean"):
        folder = tmp_path / objective
        folder.mkdir()
        more = (f"--axis=train_step.objective={objective}", "--axis=train_step.vocab=4000")
        case = "impl:eager/size:small/context:64/dtype:fp32"
        counters = measured_counters(folder, case, 64, "step", "sdpa", *more)
        assert counters["predicted_activation_mem"] == pytest.approx(counters["activation_mem"], rel=0.1)
        kept[objective] = counters["activation_mem"]
    assert kept["mean"] < 0.6 * kept["cross_entropy"], "half of all is the log-probabilities of 4000 words"


def test_parameters_of_presets() -> None:
    listed = subprocess.run([str(PARAMETERS)], check=True, capture_output=True, text=True).stdout
    presets = [json.loads(line) for line in listed.splitlines()]
    assert len(presets) == 6
    for preset in presets:
        name, ours = preset.pop("name"), preset.pop("parameters")
        with torch.device("meta"):
            model = torch_transformer.Transformer(torch_transformer.Shape(**preset, context=128))
        assert ours == sum(parameter.numel() for parameter in model.parameters()), name
