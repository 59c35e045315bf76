# SPDX-License-Identifier: Apache-2.0
"""A range that profilers show."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def profile(name: str = "roofbench") -> Iterator[None]:
    """Names what runs inside it, in torch.profiler and, where CUDA runs, in NVTX for Nsight. It costs nothing without
    torch, which it does not import."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.profiler.record_function(name))
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            stack.enter_context(torch.cuda.nvtx.range(name))
        yield
