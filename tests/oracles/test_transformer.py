# SPDX-License-Identifier: Apache-2.0
"""The C++ transformer against the same model in PyTorch, run live on the same weights and tokens."""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from built_program import BIN
from torch_transformer import Shape, Transformer

SHAPE = Shape(d_model=64, d_ff=176, layers=3, heads=4, vocab=101, context=24)
BATCH = 2
STEPS = 3

pytestmark = pytest.mark.slow  # importing torch takes seconds

Results = dict[str, torch.Tensor]


class Oracle:
    """The model, a batch, and the results of three steps of it in PyTorch."""

    def __init__(self, naive: bool = False, dtype: str = "fp32") -> None:
        torch.manual_seed(11)
        self.model = Transformer(SHAPE, naive)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)  # norms start as ones, which hide mistakes
        self.tokens, self.targets = torch.randint(SHAPE.vocab, (2, BATCH, SHAPE.context))
        self.naive = naive
        self.dtype = dtype
        if dtype == "bf16":
            self.model.bfloat16()

    def save(self, path: Path) -> None:
        parameters = [parameter.detach().float().numpy().tobytes() for parameter in self.model.parameters()]
        path.write_bytes(b"".join([*parameters, self.tokens.numpy().tobytes(), self.targets.numpy().tobytes()]))

    def names(self) -> list[str]:
        return [name.replace("blocks.", "block.").removesuffix(".weight") for name, _ in self.model.named_parameters()]

    def run(self, optimizer: str = "adamw_fused") -> Results:
        parameters = list(self.model.parameters())
        torch_optimizer = (
            torch.optim.SGD(parameters, lr=1e-3)
            if optimizer == "sgd"
            else torch.optim.AdamW(parameters, lr=1e-3, fused=optimizer != "adamw")
        )
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == "bf16_autocast")
        with torch.no_grad(), autocast:
            results = {"logits": self.model(self.tokens).float()}
        for step in range(STEPS):
            with autocast:
                loss = self.model.loss(self.tokens, self.targets)
            loss.backward()  # type: ignore[no-untyped-call]
            if step == 0:
                results["loss"] = loss.detach().float()
                for name, parameter in zip(self.names(), parameters, strict=True):
                    assert parameter.grad is not None
                    results[f"gradient of {name}"] = parameter.grad.float().clone()
            torch_optimizer.step()
            torch_optimizer.zero_grad(set_to_none=True)
        for name, parameter in zip(self.names(), parameters, strict=True):
            results[f"{name} after {STEPS} steps"] = parameter.detach().float()
        return results


def run_ours(folder: Path, oracle: Oracle, shapes: Results, impl: str, optimizer: str) -> Results:
    """The same results from the C++ model; `shapes` gives their shapes."""
    oracle.save(folder / "in.bin")
    settings = {
        **asdict(SHAPE),
        "batch": BATCH,
        "impl": impl,
        "attention": "naive" if oracle.naive else "sdpa",
        "dtype": oracle.dtype,
        "optimizer": optimizer,
    }
    arguments = [f"{key}:{value}" for key, value in settings.items()]
    subprocess.run(
        [BIN / "transformer_steps", folder / "in.bin", folder / "out.bin", *arguments], check=True, timeout=600
    )
    flat = torch.from_numpy(np.fromfile(folder / "out.bin", dtype=np.float32))
    ends = np.cumsum([tensor.numel() for tensor in shapes.values()])
    parts = torch.tensor_split(flat, torch.from_numpy(ends[:-1]))
    return {name: part.view(shapes[name].shape) for name, part in zip(shapes, parts, strict=True)}


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Distance as a share of the oracle's length."""
    return float((ours - theirs).norm() / theirs.norm())


def distances(tmp_path: Path, oracle: Oracle, impl: str = "eager", optimizer: str = "adamw_fused") -> dict[str, float]:
    start = Oracle(oracle.naive, oracle.dtype)
    theirs = start.run("adamw_fused" if optimizer == "adamw_foreach" else optimizer)
    ours = run_ours(tmp_path, oracle, theirs, impl, optimizer)
    assert len(ours) == 2 + 2 * len(oracle.names())
    return {name: relative(ours[name], theirs[name]) for name in theirs}


@pytest.mark.parametrize(
    ("impl", "attention", "optimizer", "dtype", "bound"),
    [
        *(("eager", "sdpa", optimizer, "fp32", 1e-5) for optimizer in ("adamw_fused", "adamw_foreach", "adamw", "sgd")),
        ("eager", "naive", "adamw_fused", "fp32", 1e-5),
        ("native", "sdpa", "adamw_fused", "fp32", 1e-5),
        ("native", "naive", "adamw_fused", "fp32", 1e-5),
        # The same operations in the same order round in the same places; products may sum in another order.
        ("eager", "sdpa", "adamw_fused", "bf16_autocast", 0.02),
        ("eager", "sdpa", "adamw_fused", "bf16", 0.02),
        # Norms and gates round once where PyTorch's operations round after each.
        ("native", "sdpa", "adamw_fused", "bf16_autocast", 0.05),
        ("native", "sdpa", "adamw_fused", "bf16", 0.05),
    ],
)
def test_steps_match_pytorch(
    tmp_path: Path, impl: str, attention: str, optimizer: str, dtype: str, bound: float
) -> None:
    found = distances(tmp_path, Oracle(attention == "naive", dtype), impl, optimizer)
    assert {name: distance for name, distance in found.items() if not distance <= bound} == {}


def test_a_corrupted_weight_is_seen(tmp_path: Path) -> None:
    oracle = Oracle()
    with torch.no_grad():
        oracle.model.get_parameter("blocks.1.up.weight")[3, 5] += 0.5
    found = distances(tmp_path, oracle)
    assert found["logits"] > 1e-4
    assert found["gradient of block.0.query"] > 1e-4
