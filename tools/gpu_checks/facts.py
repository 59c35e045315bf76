# SPDX-License-Identifier: Apache-2.0
"""What can be read about a machine without running anything of ours on its GPU: enough to explain a later failure when
the machine is gone.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from gpu_checks import nvml_calls, processes
from gpu_checks.step import Step, Tools

PATIENCE = 30.0  # seconds for each: nvidia-smi may wait for a driver that starts
LONGEST = 40_000  # characters of one; nvidia-smi -q prints 15,000 for a GPU
FILES = ("/proc/driver/nvidia/version", "/proc/meminfo", "/proc/version", "/sys/fs/cgroup/memory.max")
VARIABLES = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING", "NVIDIA_VISIBLE_DEVICES")
OF_GPUS = (
    "index,name,uuid,pci.bus_id,driver_version,memory.total,memory.free,mig.mode.current,ecc.mode.current,"
    "ecc.errors.uncorrected.volatile.total,compute_mode,persistence_mode,power.limit,clocks.sm,clocks.max.sm,"
    "temperature.gpu"
)
TORCH_RELEASE = "import importlib.metadata as m; print(m.version('torch'))"


def commands(tools: Tools) -> dict[str, list[str | Path]]:
    """By name. None of them opens a context on the GPU."""
    of_gpus: dict[str, list[str | Path]] = {
        "gpus": ["nvidia-smi", f"--query-gpu={OF_GPUS}", "--format=csv"],
        "mig": ["nvidia-smi", "-L"],  # the devices that a divided GPU has
        "processes": ["nvidia-smi", "--query-compute-apps=pid,name,used_memory", "--format=csv"],
        "nvidia_smi_q": ["nvidia-smi", "-q"],
        "topology": ["nvidia-smi", "topo", "-m"],
        "nvml": [sys.executable, "-I", Path(nvml_calls.__file__)],
    }
    cuda_part = tools.roofbench.parent.parent / "lib/libroofbench_cuda.so"
    loaded = {"roofbench": tools.roofbench, "gpu_test": tools.gpu_test, "libroofbench_cuda": cuda_part}
    of_loader: dict[str, list[str | Path]] = {f"ldd_{name}": ["ldd", path] for name, path in loaded.items() if path}
    others: dict[str, list[str | Path]] = {
        "program": [tools.roofbench, "--version"],
        "sanitizer": [tools.sanitizer or "compute-sanitizer", "--version"],
        "torch": [tools.python, "-I", "-c", TORCH_RELEASE],  # without importing it, which takes seconds
    }
    return of_gpus | of_loader | others


def facts(tools: Tools, step: Step) -> None:
    """Adds those of this call, as the next one may run on another machine."""
    of_call: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "uname": list(platform.uname()),
    }
    step.figures.setdefault("calls", []).append(of_call)
    of_call["environment"] = {name: os.environ.get(name) for name in VARIABLES}
    of_call["files"] = {name: _content(name) for name in FILES}
    of_call["commands"] = {}
    for name, command in commands(tools).items():
        of_call["commands"][name] = _answer(tools, command)
        tools.save()


def _answer(tools: Tools, command: list[str | Path]) -> dict[str, Any]:
    """The exit status and output; the status is None if there is no such command."""
    began = time.monotonic()
    words = [str(word) for word in command]
    try:
        done = processes.run(words, PATIENCE, tools.deadline)
    except OSError as error:
        return {"command": words, "status": None, "output": str(error)}
    seconds = round(time.monotonic() - began, 3)
    return {"command": words, "status": done.returncode, "seconds": seconds, "output": done.stdout[:LONGEST]}


def _content(name: str) -> str | None:
    try:
        return Path(name).read_text(errors="replace")[:LONGEST]
    except OSError:
        return None
