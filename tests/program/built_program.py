# SPDX-License-Identifier: Apache-2.0
"""The built program, and flags that keep a run of it to milliseconds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / os.environ.get("ROOFBENCH_PRESET", "release") / "bin"
PROGRAM = BIN / "roofbench"

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# A test of memory, files or names can skip the roofs: added to every small run, so that it does not measure them. A
# test of roofs adds WITH_ROOFS after it.
# What these tests ask is not whether the processor has arithmetic for a precision: both run all of them.
NO_ROOFS = ("--roofs=off", "--slow_precisions")
WITH_ROOFS = ("--roofs=measure", "--slow_precisions")

# One measured step, for a test of anything but the time.
QUICKLY = ("--benchmark_min_time=1x", "--warmup_iters=1", *NO_ROOFS, "--check=off", "--threads=1")

HAS_BF16 = any(flag in Path("/proc/cpuinfo").read_text(encoding="utf-8") for flag in ("avx512_bf16", "amx_bf16"))

# Four small cases, five samples each after one step: the shape of the output and not the figures are of interest.
TINY = (
    "--benchmark_filter=matmul/impl:(eager|onednn)/dtype:fp32",
    "--suite=quick",
    "--axis=matmul.m=n",
    "--axis=matmul.k=n",
    "--axis=matmul.n=16,32",
    "--benchmark_min_time=5x",
    "--warmup_iters=1",
    *NO_ROOFS,
)
