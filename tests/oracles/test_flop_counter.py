# SPDX-License-Identifier: Apache-2.0
"""The FLOPs of cases and profiles are those that torch.utils.flop_counter counts on meta tensors, and the memory of
training steps and prompts is predicted by its formulas."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_transformer
from built_program import NO_ROOFS, PROGRAM
from torch.utils.flop_counter import FlopCounterMode

pytestmark = pytest.mark.slow  # importing torch takes seconds

SHORT = ("--suite=full", "--benchmark_min_time=1x", *NO_ROOFS, "--check=off")


def measured(folder: Path, family: str, *flags: str, **axes: object) -> list[dict[str, Any]]:
    """The rows of all points of these axes, each after a single step, with their FLOPs by precision."""
    folder.mkdir(exist_ok=True)
    journal = folder / "run.jsonl"
    chosen = [f"--benchmark_filter=^{family}/", *(f"--axis={family}.{axis}={values}" for axis, values in axes.items())]
    command: list[str | Path] = [
        PROGRAM,
        *SHORT,
        "--warmup_iters=0",
        *chosen,
        *flags,
        f"--journal={journal}",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    lines = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    return [line | line["counters"] | line["axes"] | {"flops": line["flops_by_precision"]} for line in lines]


def test_matmul(tmp_path: Path) -> None:
    axes = {"impl": "eager", "dtype": "bf16", "scales": "tensor", "data": "normal", "cache": "warm"}
    rows = measured(tmp_path, "matmul", m="16,1", n="48,64", k="80,32", **axes)
    assert len(rows) == 8
    for row in rows:
        with FlopCounterMode(display=False) as counter:
            torch.empty(row["m"], row["k"], device="meta") @ torch.empty(row["k"], row["n"], device="meta")
        assert row["flops"] == {"bf16": counter.get_total_flops()}, row["name"]


def fp8(rows: int, columns: int) -> torch.Tensor:
    return torch.empty(rows, columns, device="meta", dtype=torch.float8_e4m3fn)


@pytest.mark.parametrize(("family", "rows"), [("matmul", "m"), ("fp8_linear", "rows")])
def test_products_in_fp8(tmp_path: Path, family: str, rows: str) -> None:
    axes = {rows: "16,1", "n": "48,64", "k": "80,32", "cache": "warm", "scales": "tensor"}
    more = {"impl": "eager", "dtype": "fp8", "data": "normal"} if family == "matmul" else {}
    found = measured(tmp_path, family, **axes | more)
    assert len(found) == 8
    scale = torch.ones(1, 1, device="meta")
    for row in found:
        a, b = fp8(row[rows], row["k"]), fp8(row["n"], row["k"]).t()
        with FlopCounterMode(display=False) as counter:
            torch._scaled_mm(a, b, scale, scale, out_dtype=torch.bfloat16)
        assert row["flops"] == {"fp8": counter.get_total_flops()}, row["name"]
        assert ({"quantize_ms", "product_ms"} <= row.keys()) == (family == "fp8_linear"), row["name"]


def test_grouped_mm(tmp_path: Path) -> None:
    """torch counts the products of a loop, and no grouped one."""
    sizes = {"rows": "24,5", "experts": "3,8", "n": 48, "k": 80, "cache": "warm"}
    found = measured(tmp_path, "grouped_mm", impl="eager,naive", routing="balanced,jagged", **sizes)
    assert len(found) == 16
    for row in found:
        loads = [1 / (e + 1 if row["routing"] == "jagged" else 1) for e in range(row["experts"])]
        ends = [round(row["rows"] * sum(loads[: e + 1]) / sum(loads)) for e in range(row["experts"])]
        counts = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
        with FlopCounterMode(display=False) as counter:
            for count in counts:
                torch.empty(count, row["k"], device="meta") @ torch.empty(row["k"], row["n"], device="meta")
        assert row["flops"] == {"bf16": counter.get_total_flops()}, row["name"]
        assert row["max_over_mean_load"] == pytest.approx(max(counts) * row["experts"] / row["rows"]), row["name"]


def test_mlp_forward_and_backward(tmp_path: Path) -> None:
    axes = {"impl": "eager", "dtype": "bf16_autocast", "batch": "8,4", "d": "16,32", "layers": "3,1", "steps": "1,2"}
    rows = measured(tmp_path, "mlp", **axes, **ALONE)
    assert len(rows) == 16
    for row in rows:
        linears = [torch.nn.Linear(row["d"], row["d"], device="meta") for _ in range(row["layers"])]
        network = torch.nn.Sequential(*[module for linear in linears for module in (linear, torch.nn.GELU())])
        with FlopCounterMode(display=False) as counter:
            for _ in range(row["steps"]):
                network(torch.empty(row["batch"], row["d"], device="meta")).sum().backward()
        # The products run in bf16 under autocast; element-wise work, which torch does not count, in fp32.
        assert row["flops"]["bf16"] == counter.get_total_flops(), row["name"]


SHAPE = torch_transformer.Shape(d_model=96, d_ff=160, layers=2, heads=3, vocab=70, context=16)
BATCH = 2
SIZES = {name: getattr(SHAPE, name) for name in ("d_model", "d_ff", "layers", "heads", "vocab")}
ALONE = {"parallel": "none", "ranks": 1}
DEFAULTS = {"optimizer": "adamw_fused", "objective": "cross_entropy", "warmup": "auto", **ALONE}
STEP = {"size": "small", "batch": BATCH, **SIZES, "impl": "eager", "context": SHAPE.context, **DEFAULTS}


def counted_flops(which: str) -> int:
    """In full, although half of the attention is masked."""
    with torch.device("meta"):
        model = torch_transformer.Transformer(SHAPE, naive=True)
        tokens = torch.zeros(BATCH, SHAPE.context, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        loss = model.loss(tokens, tokens)
        if which == "forward_backward":
            loss.backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


def test_transformer(tmp_path: Path) -> None:
    axes = {"attention": "naive", "pass": "inference,forward,forward_backward", "dtype": "bf16,bf16_autocast"}
    rows = measured(tmp_path, "train_step", **STEP | axes)
    assert len(rows) == 6
    for row in rows:
        assert row["flops"]["bf16"] == counted_flops(row["pass"]), row["name"]


def test_transformer_counts_no_masked_half(tmp_path: Path) -> None:
    """The fused kernel skips what the mask hides."""
    axes = {"attention": "sdpa", "pass": "inference", "dtype": "bf16_autocast"}
    (row,) = measured(tmp_path, "train_step", **STEP | axes)
    attention = 4 * BATCH * SHAPE.layers * SHAPE.d_model * SHAPE.context**2
    computed = attention * (SHAPE.context + 1) / (2 * SHAPE.context)
    assert row["flops"]["bf16"] == counted_flops("inference") - attention + computed


def profiled(folder: Path, **axes: object) -> dict[str, Any]:
    chosen = [f"--axis=train_step.{axis}={value}" for axis, value in axes.items()]
    flags = ("--warmup_iters=1", "--threads=1", "--benchmark_filter=^train_step/", f"--profile={folder}")
    subprocess.run([PROGRAM, *SHORT, *chosen, *flags], check=True, capture_output=True, timeout=600)
    (found,) = [json.loads(path.read_text()) for path in folder.glob("*.json") if ".trace." not in path.name]
    assert isinstance(found, dict)
    return found


def test_products_of_a_profiled_step(tmp_path: Path) -> None:
    profile = profiled(tmp_path, **STEP | {"attention": "naive", "pass": "step", "dtype": "fp32"})
    products = [row for row in profile["kernels"] if row["work"] == "product"]
    forward = [row for row in products if row["phase"] == "forward"]
    assert sum(row["flops"] for row in forward) == pytest.approx(counted_flops("forward"))
    assert sum(row["flops"] for row in products) == pytest.approx(counted_flops("forward_backward"))


def test_self_times_make_up_a_profiled_step(tmp_path: Path) -> None:
    """The model is large enough that the profiler's own time is negligible."""
    sizes = {"size": "small", "batch": 1, "vocab": 1000, "layers": 2, "impl": "eager", "context": 128}
    profile = profiled(tmp_path, **sizes, **DEFAULTS, **{"pass": "step", "dtype": "fp32", "attention": "sdpa"})
    assert 0.95 <= profile["covered"] <= 1
    # The profiler's step is the one that our stopwatch took.
    assert profile["profiled_ms"] == pytest.approx(profile["stopwatch_ms"], rel=0.01)


def test_transformer_memory_is_predicted(tmp_path: Path) -> None:
    axes = {"impl": "eager,native", "dtype": "fp32,bf16,bf16_autocast", "context": "64,256"}
    rows = measured(tmp_path, "train_step", **STEP | axes | {"pass": "step", "attention": "sdpa"})
    assert len(rows) == 12
    for row in rows:
        for part in ("parameter_mem", "gradient_mem", "optimizer_mem", "activation_mem"):
            assert row[f"predicted_{part}"] == pytest.approx(row[part], rel=0.1), (part, row["name"])
        assert row["predicted_mem"] == pytest.approx(row["peak_mem"], rel=0.1), row["name"]


def test_forward_memory_is_predicted(tmp_path: Path) -> None:
    """Forward-only memory in addition to the parameters, where the products are a large part."""
    axes = {"impl": "eager,native", "dtype": "fp32,bf16_autocast", "attention": "sdpa,naive", "context": 256}
    rows = measured(tmp_path, "train_step", **STEP | axes | {"pass": "inference,forward"})
    assert len(rows) == 16
    for row in rows:
        predicted, peak = (row[name] - row["parameter_mem"] for name in ("predicted_mem", "peak_mem"))
        assert predicted == pytest.approx(peak, rel=0.1), row["name"]


@pytest.mark.parametrize("activations", ["default", "int8"])
def test_memory_of_a_prompt_is_predicted(activations: str, tmp_path: Path) -> None:
    """All but the weights, where the tokens of the prompt are a large part."""
    precisions = "fp32,bf16,int8,int4,llm_int8" if activations == "default" else "int8,int4"
    axes = {"impl": "eager,native", "model": "tiny_llama", "precision": precisions, "activations": activations}
    rows = measured(tmp_path, "prefill", **axes | {"prompt": 4096, "parallel": "none", "ranks": 1})
    assert len(rows) == 2 * len(precisions.split(","))
    for row in rows:
        predicted, peak = (row[name] - row["model_bytes"] for name in ("predicted_mem", "peak_mem"))
        assert predicted == pytest.approx(peak, rel=0.1), row["name"]


def test_the_mean_of_the_logits_keeps_none_of_them(tmp_path: Path) -> None:
    """The axis reaches the model as it does the prediction."""
    axes = {"objective": "cross_entropy,mean", "vocab": 4000, "context": 64, "dtype": "fp32", "attention": "sdpa"}
    rows = measured(tmp_path, "train_step", **STEP | axes | {"pass": "step"})
    for row in rows:
        assert row["predicted_activation_mem"] == pytest.approx(row["activation_mem"], rel=0.1)
    kept = {row["objective"]: row["activation_mem"] for row in rows}
    assert kept["mean"] < 0.6 * kept["cross_entropy"], "half of all is the log-probabilities of 4000 words"
