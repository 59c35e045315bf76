"""The FLOPs that a case reports are those that torch.utils.flop_counter counts on meta tensors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "bin" / "roofbench"

pytestmark = pytest.mark.slow  # importing torch takes seconds


def reported_flops(tmp_path: Path, *flags: str) -> dict[str, dict[str, float]]:
    """FLOPs by precision of each case that the flags choose."""
    journal = tmp_path / "run.jsonl"
    short = ("--suite=quick", "--benchmark_min_time=1x", "--warmup_iters=0")
    command = [str(PROGRAM), *flags, *short, f"--journal={journal}"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    lines = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert lines
    return {line["name"]: line["flops_by_precision"] for line in lines}


@pytest.mark.parametrize(("m", "n", "k"), [(16, 48, 80), (1, 64, 32)])
def test_matmul(tmp_path: Path, m: int, n: int, k: int) -> None:
    flags = [f"--axis=matmul.{axis}={size}" for axis, size in (("m", m), ("n", n), ("k", k))]
    (flops,) = reported_flops(tmp_path, "--benchmark_filter=impl:eager/dtype:bf16", *flags).values()
    with FlopCounterMode(display=False) as counter:
        torch.empty(m, k, device="meta") @ torch.empty(k, n, device="meta")
    assert flops == {"bf16": counter.get_total_flops()}


@pytest.mark.parametrize(("batch", "width", "layers", "steps"), [(8, 16, 3, 1), (4, 32, 1, 2)])
def test_mlp_forward_and_backward(tmp_path: Path, batch: int, width: int, layers: int, steps: int) -> None:
    sizes = {"batch": batch, "d": width, "layers": layers, "steps": steps}
    flags = [f"--axis=mlp.{axis}={size}" for axis, size in sizes.items()]
    (flops,) = reported_flops(tmp_path, "--benchmark_filter=mlp/dtype:bf16", *flags).values()
    linears = [torch.nn.Linear(width, width, device="meta") for _ in range(layers)]
    network = torch.nn.Sequential(*[module for linear in linears for module in (linear, torch.nn.GELU())])
    with FlopCounterMode(display=False) as counter:
        for _ in range(steps):
            network(torch.empty(batch, width, device="meta")).sum().backward()
    # The products run in bf16 under autocast; element-wise work, which torch does not count, in fp32.
    assert flops["bf16"] == counter.get_total_flops()
