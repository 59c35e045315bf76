# SPDX-License-Identifier: Apache-2.0
"""One process of PyTorch eager: times steps of a case and prints {"seconds": […], "settings": {…}}."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "oracles"))
import torch_transformer

VOCAB = 10000
SIZES = {"small": (768, 3072, 12, 12), "medium": (1024, 4096, 24, 16)}  # d_model, d_ff, layers, heads


def train_step(axes: dict[str, str]) -> Callable[[], None]:
    """Forward, backward and fused AdamW; gradients are set to None."""
    d_model, d_ff, layers, heads = SIZES[axes["size"]]
    context, batch = int(axes["context"]), 4
    model = torch_transformer.Transformer(
        torch_transformer.Shape(d_model=d_model, d_ff=d_ff, layers=layers, heads=heads, vocab=VOCAB, context=context)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens, targets = torch.randint(VOCAB, (2, batch, context))
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=axes["dtype"] == "bf16_autocast")

    def step() -> None:
        with autocast:
            loss = model.loss(tokens, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def mlp(axes: dict[str, str]) -> Callable[[], None]:
    width, batch, layers, steps = (int(axes[axis]) for axis in ("d", "batch", "layers", "steps"))
    blocks = [module for _ in range(layers) for module in (torch.nn.Linear(width, width), torch.nn.GELU())]
    network = torch.nn.Sequential(*blocks)
    x, upstream = torch.randn(batch, width), torch.randn(batch, width)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=axes["dtype"] == "bf16_autocast")

    def step() -> None:
        for _ in range(steps):
            network.zero_grad(set_to_none=True)
            with autocast:
                y = network(x)
            y.backward(upstream.to(y.dtype))

    return step


# From <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def use_allocator(tuned: bool) -> None:
    """Matches roofbench's --allocator. LibTorch reads its setting at the first tensor, malloc at once."""
    os.environ["THP_MEM_ALLOC_ENABLE"] = "1" if tuned else "0"
    if tuned:
        library = ctypes.CDLL(None)
        if not (library.mallopt(M_MMAP_MAX, 0) and library.mallopt(M_TRIM_THRESHOLD, -1)):
            raise SystemExit("cannot tune malloc of this C library: use --allocator=system")


FAMILIES = {"train_step": train_step, "mlp": mlp}


def main(case: str, allocator: str, warmups: int, samples: int, threads: int) -> None:
    use_allocator(allocator == "tuned")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    family, *parts = case.split("/")
    step = FAMILIES[family](dict(part.split(":", 1) for part in parts))
    for _ in range(warmups):
        step()
    seconds = []
    for _ in range(samples):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    settings = {"torch": torch.__version__, "allocator": allocator, "threads": str(torch.get_num_threads())}
    print(json.dumps({"seconds": seconds, "settings": settings}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
