# SPDX-License-Identifier: Apache-2.0
"""One rank of torch.distributed over Gloo: times a collective; rank 0 prints {"seconds": […], "settings": {…}}."""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

# As in roofbench, a sample has as many steps as last a hundred meetings of all ranks: where ranks share processors, the
# medians of shorter samples are others, as times come in two heights.
MEETINGS = 20
LEAST_MEETINGS = 100

# Each takes the module torch.distributed, the whole array, another one, a part, rank and number of ranks.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "all_reduce": lambda dist, x, _y, _part, _rank, _ranks: dist.all_reduce(x),
    "all_gather": lambda dist, x, _y, part, _rank, _ranks: dist.all_gather_into_tensor(x, part),
    "reduce_scatter": lambda dist, x, _y, part, _rank, _ranks: dist.reduce_scatter_tensor(part, x),
    "broadcast": lambda dist, x, _y, _part, _rank, _ranks: dist.broadcast(x, 0),
    "all_to_all": lambda dist, x, y, _part, _rank, _ranks: dist.all_to_all_single(y, x),
    "send_recv": lambda dist, x, y, _part, rank, ranks: [
        work.wait() for work in (dist.irecv(y, (rank - 1) % ranks), dist.isend(x, (rank + 1) % ranks))
    ],
}


def main(family: str, dtype: str, size: int, warmups: int, samples: int) -> None:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.int8}[dtype]
    elements = size // kind.itemsize
    # As in roofbench: small integers, whose sums grow from step to step; no addition is slower for that.
    whole = torch.randint(-16, 17, (elements,)).to(kind) * (rank + 1)
    x, y, part = whole, torch.zeros_like(whole), whole[: elements // ranks].clone()

    def slowest_of(mine: float) -> float:
        slowest = torch.tensor(mine, dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        return float(slowest)

    def meeting() -> float:
        """Seconds in which all ranks meet."""
        marks = [time.perf_counter()]
        for _ in range(MEETINGS):
            dist.barrier()
            marks.append(time.perf_counter())
        return statistics.median(b - a for a, b in itertools.pairwise(marks))

    def sample(steps: int) -> float:
        """Seconds of a step of the slowest rank."""
        dist.barrier()
        start = time.perf_counter()
        for _ in range(steps):
            OPERATIONS[family](dist, x, y, part, rank, ranks)
        return slowest_of((time.perf_counter() - start) / steps)

    for _ in range(warmups):
        sample(1)
    least = LEAST_MEETINGS * slowest_of(meeting())
    steps = 1
    while (seconds_of_step := sample(steps)) * steps < least:
        steps = max(2 * steps, math.ceil(least / max(seconds_of_step, 1e-6)))
    seconds = [sample(steps) for _ in range(samples)]
    if rank == 0:
        settings = {"torch": torch.__version__, "threads": str(torch.get_num_threads())}
        print(json.dumps({"seconds": seconds, "settings": settings}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
