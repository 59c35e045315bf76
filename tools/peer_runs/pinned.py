# SPDX-License-Identifier: Apache-2.0
"""Runs a command on the processors of its rank, with all threads that it starts: torchrun pinned.py COMMAND …"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def processors_of(rank: int, ranks: int, processors: Sequence[int]) -> list[int]:
    """An equal share that no other rank has; one that ranks share if there are more ranks than processors."""
    count = max(1, len(processors) // ranks)
    first = rank * count % len(processors)
    return list(processors[first : first + count])


if __name__ == "__main__":
    rank, ranks = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    os.sched_setaffinity(0, processors_of(rank, ranks, sorted(os.sched_getaffinity(0))))
    os.execvp(sys.argv[1], sys.argv[1:])
