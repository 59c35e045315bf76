# SPDX-License-Identifier: Apache-2.0
"""The machine of this process, the facts about it, its roofs, which the next process reuses, and ranges in profiles."""

from __future__ import annotations

import atexit
import contextlib
import functools
import sys
from collections.abc import Callable, Iterator

from roofbench import _core
from roofbench._arrays import torch

says_crowds = True  # off in the processes of a run, whose parent says so once
_PROBE = 512  # rows and columns of a product: three operands fit a private cache


def machine() -> _core.Machine:
    """With as many threads as torch has now, if it is there: its rows are compared with what these reach, and those of
    other numbers are another machine's. Where OMP_PROC_BIND binds this thread to one processor, torch knows how many
    there are."""
    framework = torch()
    return _machine(framework.get_num_threads() if framework is not None else 0)


@functools.cache
def _machine(threads: int) -> _core.Machine:
    made = _core.Machine(threads)
    if says_crowds and (crowd := made.crowd_text()):
        print(f"roofbench: {crowd}", file=sys.stderr, flush=True)
    # Objects of another library, such as a custom operator of PyTorch, may outlive the modules, and this one with them.
    atexit.register(_machine.cache_clear)
    for dtype, library, product in _products():
        made.add_compute_probe(dtype, library, 2.0 * _PROBE**3, product)
    versions = {name: getattr(sys.modules.get(name), "__version__", "") for name in ("numpy", "torch")}
    made.reuse_roofs("Python" + "".join(f", {name} {version}" for name, version in versions.items() if version))
    return made


def _products() -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Products of the libraries at hand: what the best of them reaches is a roof, too. Of random numbers, because a
    processor that multiplies the same one over and over is faster."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        for dtype, kind in (("fp32", numpy.float32), ("fp64", numpy.float64)):
            a, b, c = numpy.random.default_rng(0).standard_normal((3, _PROBE, _PROBE), kind)
            yield dtype, "numpy", functools.partial(numpy.matmul, a, b, out=c)
    framework = torch()
    if framework is not None:
        random = framework.Generator().manual_seed(0)  # not that of the program under test
        for dtype, kind in (("fp32", framework.float32), ("bf16", framework.bfloat16), ("fp64", framework.float64)):
            a, b, c = framework.randn(3, _PROBE, _PROBE, generator=random).to(kind)
            yield dtype, "torch", functools.partial(framework.mm, a, b, out=c)


def context() -> dict[str, str]:
    """The facts of a result: when and where it began, versions, device, threads and what the machine is."""
    facts = {**_core.start_facts(), **machine().context(), "python_version": ".".join(map(str, sys.version_info[:3]))}
    if torch() is not None:
        facts["torch_version"] = str(torch().__version__)
    return facts


@contextlib.contextmanager
def profile(name: str = "roofbench") -> Iterator[None]:
    """Names what runs inside it, in torch.profiler and, where CUDA runs, in NVTX for Nsight. It costs nothing without
    torch, which it does not import."""
    framework = torch()
    if framework is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(framework.profiler.record_function(name))
        if framework.cuda.is_available() and framework.cuda.is_initialized():
            stack.enter_context(framework.cuda.nvtx.range(name))
        yield
