# SPDX-License-Identifier: Apache-2.0
"""The machine of this process, the facts about it, and roofs kept for the next process (as `--roofs=reuse` does)."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from roofbench import _core
from roofbench._arrays import torch

_MOST_AGE = 3600.0  # seconds
_QUIET = 0.05  # roofs are kept if other programs used at most this share of the processors meanwhile


_PROBE = 512  # rows and columns of a product: three operands fit a private cache


@functools.cache
def machine() -> _core.Machine:
    made = _core.Machine()
    for dtype, library, product in _products():
        if made.supports(dtype):
            made.add_compute_probe(dtype, library, 2.0 * _PROBE**3, product)
    made.restore(_kept(made))
    return made


def _products() -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Products of the libraries at hand: what the best of them reaches is a roof, too."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        ones = numpy.ones((3, _PROBE, _PROBE), numpy.float32)
        yield "fp32", "numpy", functools.partial(numpy.matmul, ones[0], ones[1], out=ones[2])
    framework = torch()
    if framework is not None:
        for dtype, kind in (("fp32", framework.float32), ("bf16", framework.bfloat16)):
            a, b, c = framework.ones(3, _PROBE, _PROBE, dtype=kind)
            yield dtype, "torch", functools.partial(framework.mm, a, b, out=c)


def calibrate(cost: _core.Cost) -> None:
    """Measures the roofs that the work needs, unless they are known, and keeps them."""
    here = machine()
    known = len(here.readings())
    others = here.calibrate(cost)
    if len(here.readings()) > known and others <= _QUIET:
        _keep(here)


def context() -> dict[str, str]:
    """The facts of a result: versions, device, threads and what the machine is."""
    here = machine()
    facts = {**here.context(), "python_version": ".".join(map(str, sys.version_info[:3]))}
    if torch() is not None:
        facts["torch_version"] = str(torch().__version__)
    return facts


def _file(here: _core.Machine) -> Path:
    """Named after all that determines the rates, except momentary conditions."""
    facts = here.context()
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    names = ("device_arch", "cpu_isa", "cpu_affinity", "cpu_caches")
    libraries = [str(getattr(sys.modules.get(name), "__version__", "")) for name in ("numpy", "torch")]
    program = [_core.__version__, _core.git_revision, here.name, str(here.threads), boot]
    key = [*program, *libraries, *(facts.get(name, "") for name in names)]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roofbench"
    return folder / f"python-{hashlib.sha256('|'.join(key).encode()).hexdigest()[:16]}.json"


def _is_private(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _kept(here: _core.Machine) -> list[_core.Reading]:
    """Empty where nothing is kept, or is damaged or too old."""
    try:
        path = _file(here)
        if not _is_private(path.parent) or not 0 <= time.time() - path.stat().st_mtime <= _MOST_AGE:
            return []
        return [_core.Reading(*reading) for reading in json.loads(path.read_text())]
    except (OSError, RuntimeError, TypeError, ValueError):
        return []


def _keep(here: _core.Machine) -> None:
    readings = [[r.roof, r.variant, r.rate, r.best, r.slow, r.fast] for r in here.readings()]
    with contextlib.suppress(OSError, RuntimeError):
        path = _file(here)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_private(path.parent):
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_text(json.dumps(readings))
            unfinished.replace(path)
