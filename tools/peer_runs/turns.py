# SPDX-License-Identifier: Apache-2.0
"""One turn of a side of decode or prefill, in a fresh process, and what has to be there before it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from peer_runs.peer_table import Peer

PROCESS = Path(__file__).with_name("serving_process.py")
OURS = "roofbench"
WARMUPS = 2
# The axis of a verb and what it is by default: tokens in the cache before, or tokens of the prompt. Samples of a turn.
SIZES = {"decode": ("depth", 128), "prefill": ("prompt", 512)}
SAMPLES = {"decode": 30, "prefill": 3}
# As roofbench's --allocator=tuned: kept memory on huge pages, by what glibc and LibTorch read as a process begins.
TUNED = {
    "GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold={2**63}",
    "THP_MEM_ALLOC_ENABLE": "1",
}


class FailedError(Exception):
    """Why a side has no figure."""


@dataclass(frozen=True)
class Task:
    verb: str
    model: str
    threads: int
    size: int
    samples: int
    allocator: str
    program: Path
    cache: Path  # of checkpoints and their converted forms

    @property
    def checkpoint(self) -> Path:
        return self.cache / self.model / "checkpoint"

    def form(self, peer: Peer, bits: str) -> Path:
        """What the peer reads."""
        return self.cache / self.model / f"{peer.name}-{bits}" if peer.converts else self.checkpoint


def versions(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError as missing:
            raise FailedError(
                f"{package} is not installed: {sys.executable} -m pip install -r tools/requirements-peers.txt"
            ) from missing
    return found


def output_of(command: Sequence[str | Path], more: Mapping[str, str]) -> str:
    """What a process prints; if it fails, the last thing that it said is why."""
    environment = {name: value for name, value in os.environ.items() if name not in TUNED} | {**more}
    try:
        done = subprocess.run(command, capture_output=True, errors="replace", env=environment, check=False)
    except OSError as error:
        raise FailedError(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        said = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
        raise FailedError(f"ended with {done.returncode}: {said[-1].strip() if said else 'it said nothing'}")
    return done.stdout


def made(folder: Path, command: Sequence[str | Path]) -> None:
    """`command FOLDER` fills a folder, which gets its name once it is whole."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as unfinished:
        whole = Path(unfinished) / "whole"
        output_of([*command, whole], {})
        shutil.move(whole, folder)


def make_checkpoint(task: Task) -> None:
    versions(("transformers", "tokenizers", "torch"))
    made(task.checkpoint, [sys.executable, "-I", PROCESS, "checkpoint", f"--model={task.model}"])


def convert(peer: Peer, bits: str, task: Task) -> None:
    versions(peer.packages)
    if peer.converts:
        command: list[str | Path] = [
            sys.executable,
            "-I",
            PROCESS,
            "convert",
            f"--module={peer.module}",
            f"--form={peer.form(bits)}",
        ]
        made(task.form(peer, bits), [*command, f"--checkpoint={task.checkpoint}"])


def run_peer(peer: Peer, bits: str, task: Task) -> tuple[float, dict[str, str]]:
    found = versions(peer.packages)
    command: list[str | Path] = [
        sys.executable,
        "-I",
        PROCESS,
        task.verb,
        task.form(peer, bits),
        f"--module={peer.module}",
        f"--model={task.model}",
        f"--form={peer.form(bits)}",
        f"--threads={task.threads}",
        f"--size={task.size}",
        f"--samples={task.samples}",
    ]
    allocator = TUNED if task.allocator == "tuned" else {}
    lines = output_of(command, allocator | {"OMP_NUM_THREADS": str(task.threads)}).splitlines()
    return float(json.loads(lines[-1])["ms"]), found


def our_settings(verb: str, bits: str) -> dict[str, str]:
    """Axes beside the precision. In 8 and 4 bits peers read prompts with activations in 8 bits, and so do we."""
    rounds = verb == "prefill" and bits != "bf16"
    return {"impl": "native"} | ({"activations": "int8"} if rounds else {})


def run_ours(bits: str, task: Task) -> tuple[float, dict[str, str]]:
    """The same checkpoint in roofbench."""
    axis = SIZES[task.verb][0]
    settings = our_settings(task.verb, bits)
    axes = {**settings, "model": "checkpoint", "precision": bits, axis: str(task.size)}
    shown = ("model", "precision", "activations", axis)
    case = "/".join([task.verb, *(f"{name}:{axes[name]}" for name in shown if name in axes)])
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        command: list[str | Path] = [
            task.program,
            f"--benchmark_filter=^{case}$",
            *(f"--axis={task.verb}.{name}={value}" for name, value in axes.items()),
            f"--checkpoint={task.checkpoint}",
            f"--threads={task.threads}",
            f"--allocator={task.allocator}",
            f"--warmup_iters={WARMUPS}",
            f"--benchmark_min_time={task.samples}x",
            "--check=off",  # the tests have checked the case
            f"--journal={journal}",
        ]
        output_of(command, {})
        header, *lines = (json.loads(line) for line in journal.read_text().splitlines())
    if not lines or lines[0]["verdict"] != "measured":
        raise FailedError(f"did not measure {case}: {lines[0].get('reason') if lines else 'no such case'}")
    context = header["context"]
    return 1e3 * lines[0]["median_s"], {"revision": context["roofbench_revision"], "torch": context["torch_version"]}
