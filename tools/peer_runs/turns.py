# SPDX-License-Identifier: Apache-2.0
"""One turn of an engine in a fresh process, and its preparation."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from peer_runs.peer_table import Peer

PROCESS = Path(__file__).with_name("serving_process.py")
OURS = "roofbench"
WARMUPS = 2
ALLOCATORS = ("tuned", "system")
# The size axis of a verb and its default: tokens in the cache, or tokens of the prompt. Samples of a turn.
SIZES = {"decode": ("depth", 128), "prefill": ("prompt", 512)}
SAMPLES = {"decode": 30, "prefill": 3}
# A library of each package that tools/peers compiles.
COMPILED = {"llama-cpp-python": "llama_cpp/lib/libggml-cpu.so"}
# Matches roofbench's --allocator=tuned: retained memory on huge pages, as read by glibc and LibTorch at start-up. In
# roofbench, tensors of less than 2 MiB are on small ones, as LibTorch leaves them; engines with allocators of their own
# get huge pages for all that they allocate.
RETAINED = {
    "GLIBC_TUNABLES": f"glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold={2**63}",
    "THP_MEM_ALLOC_ENABLE": "1",
}
TUNED = RETAINED | {"GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:{RETAINED['GLIBC_TUNABLES']}"}


class FailedError(Exception):
    """The reason why an engine lacks a figure."""


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
        """The folder that the peer reads."""
        return self.cache / self.model / f"{peer.name}-{bits}" if peer.converts else self.checkpoint


def count(text: str) -> int:
    """A type of arguments."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def compiler_of(library: Path) -> str:
    """As it is in the library. One by clang names the GCC of the system's start files as well."""
    text = library.read_bytes() if library.is_file() else b""
    found = re.search(rb"(clang) version ([\d.]+)", text) or re.search(rb"(GCC): \([^)]*\) ([\d.]+)", text)
    return b" ".join(found.groups()).decode() if found else "an unknown compiler"


def versions(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            distribution = importlib.metadata.distribution(package)
            found[package] = distribution.version
            if package in COMPILED:
                library = Path(str(distribution.locate_file(COMPILED[package])))
                found[package] += f" by {compiler_of(library)}"
        except importlib.metadata.PackageNotFoundError as missing:
            raise FailedError(
                f"{package} is not installed: {sys.executable} -m pip install -r tools/requirements-peers.txt"
            ) from missing
    return found


def output_of(command: Sequence[str | Path], more: Mapping[str, str]) -> str:
    """The standard output of a process. If it fails, the reason is its last line."""
    environment = {name: value for name, value in os.environ.items() if name not in TUNED} | {**more}
    try:
        done = subprocess.run(command, capture_output=True, errors="replace", env=environment, check=False)
    except OSError as error:
        raise FailedError(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        lines = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
        raise FailedError(f"exit status {done.returncode}: {lines[-1].strip() if lines else 'no message'}")
    return done.stdout


def environment_of(allocator: str, threads: int, tuned: Mapping[str, str] = TUNED) -> dict[str, str]:
    """Variables of a peer's process, whose allocator and threads are then those of roofbench."""
    return ({**tuned} if allocator == "tuned" else {}) | {"OMP_NUM_THREADS": str(threads)}


def make(folder: Path, command: Sequence[str | Path]) -> None:
    """Fills a folder by `command FOLDER`, unless it exists. It appears when it is complete."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as unfinished:
        whole = Path(unfinished) / "whole"
        output_of([*command, whole], {})
        shutil.move(whole, folder)


def make_checkpoint(task: Task) -> None:
    versions(("transformers", "tokenizers", "torch"))
    make(task.checkpoint, [sys.executable, "-I", PROCESS, "checkpoint", f"--model={task.model}"])


def convert(peer: Peer, bits: str, task: Task) -> None:
    versions(peer.packages)
    if peer.converts:
        form = [f"--module={peer.module}", f"--form={peer.form(bits)}", f"--checkpoint={task.checkpoint}"]
        make(task.form(peer, bits), [sys.executable, "-I", PROCESS, "convert", *form])


def run_peer(peer: Peer, bits: str, task: Task) -> tuple[float, dict[str, str]]:
    found = versions(peer.packages)
    flags = {
        "module": peer.module,
        "model": task.model,
        "form": peer.form(bits),
        "threads": task.threads,
        "size": task.size,
        "samples": task.samples,
    }
    command: list[str | Path] = [sys.executable, "-I", PROCESS, task.verb, task.form(peer, bits)]
    given = [*command, *(f"--{name}={value}" for name, value in flags.items())]
    lines = output_of(given, environment_of(task.allocator, task.threads)).splitlines()
    return float(json.loads(lines[-1])["ms"]), found


Side = Callable[[], tuple[float, dict[str, str]]]


def alternate(sides: tuple[Side, Side], rounds: int) -> tuple[tuple[list[float], list[float]], list[dict[str, str]]]:
    """Figures and facts of both in the order A B B A, so that a slowdown of the machine affects both."""
    figures: tuple[list[float], list[float]] = ([], [])
    facts: list[dict[str, str]] = [{}, {}]
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            figure, facts[side] = sides[side]()
            figures[side].append(figure)
    return figures, facts


def our_settings(verb: str, bits: str) -> dict[str, str]:
    """Axes other than the precision. Peers read 8-bit and 4-bit prompts with 8-bit activations, and so do we."""
    rounds = verb == "prefill" and bits != "bf16"
    return {"impl": "native"} | ({"activations": "int8"} if rounds else {})


def measure_case(
    program: Sequence[str | Path], case: str, axes: Mapping[str, str], flags: Mapping[str, object]
) -> tuple[float, dict[str, str]]:
    """Median seconds of a case in roofbench, in a fresh process, and the versions that it used.

    `program` may begin with what starts it.
    """
    family = case.partition("/")[0]
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        all_flags = {
            "benchmark_filter": f"^{case}$",
            "warmup_iters": WARMUPS,
            "check": "off",  # the tests have checked the case
            "slow_precisions": "true",  # peers run them, too
            "journal": journal,
            **flags,
        }
        chosen = [f"--axis={family}.{name}={value}" for name, value in axes.items()]
        output_of([*program, *chosen, *(f"--{name}={value}" for name, value in all_flags.items())], {})
        header, *lines = (json.loads(line) for line in journal.read_text().splitlines())
    if not lines or lines[0]["verdict"] != "measured":
        raise FailedError(f"roofbench did not measure {case}: {lines[0].get('reason') if lines else 'no such case'}")
    context = header["context"]
    facts = {"revision": "roofbench_revision", "torch": "torch_version", "allocator": "allocator"}
    return lines[0]["median_s"], {name: context[key] for name, key in facts.items() if key in context}


def run_ours(bits: str, task: Task) -> tuple[float, dict[str, str]]:
    """The same checkpoint in roofbench."""
    axis = SIZES[task.verb][0]
    axes = our_settings(task.verb, bits) | {"model": "checkpoint", "precision": bits, axis: str(task.size)}
    shown = ("model", "precision", "activations", axis)
    case = "/".join([task.verb, *(f"{name}:{axes[name]}" for name in shown if name in axes)])
    flags = {
        "checkpoint": task.checkpoint,
        "threads": task.threads,
        "allocator": task.allocator,
        "benchmark_min_time": f"{task.samples}x",
    }
    seconds, facts = measure_case([task.program], case, axes, flags)
    return 1e3 * seconds, facts
