# SPDX-License-Identifier: Apache-2.0
"""Training steps in PyTorch eager beside ours: tools/peers train."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from roofreport.text import escaped, printable

ROOT = Path(__file__).resolve().parents[2]
# Enough samples of a step of this family for its median.
SAMPLES = {"train_step": 5, "mlp": 200}
DEFAULT_CASES = (
    "train_step/impl:native/size:small/context:128/dtype:fp32",
    "train_step/impl:native/size:small/context:128/dtype:bf16_autocast",
    "mlp/dtype:fp32/steps:2/layers:4/batch:256/d:32",
    "mlp/dtype:fp32/steps:2/layers:4/batch:256/d:64",
)
WARMUPS = 2
# Of both sides: huge pages and kept memory for both, or the C library's defaults for both.
ALLOCATORS = ("tuned", "system")


def family_of(case: str) -> str:
    return case.split("/", 1)[0]


@dataclass(frozen=True)
class Settings:
    program: Path
    threads: int
    samples: int | None
    allocator: str = ALLOCATORS[0]

    def samples_of(self, case: str) -> int:
        return self.samples or SAMPLES[family_of(case)]


def refusal(why: str) -> SystemExit:
    return SystemExit(f"tools/peers: {printable(why, 1000)}")


def outcome(case: str, command: list[str | Path]) -> str:
    """What a side prints. Its messages go to standard error as they are."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise refusal(f"{case}: {Path(command[0]).name} ended with {done.returncode}; why is said above")
    return done.stdout


def run_peer(case: str, settings: Settings) -> tuple[float, dict[str, str]]:
    """Median seconds of a step in PyTorch eager, in a fresh process."""
    script = Path(__file__).with_name("torch_steps.py")
    numbers = (WARMUPS, settings.samples_of(case), settings.threads)
    found = json.loads(outcome(case, [sys.executable, script, case, settings.allocator, *map(str, numbers)]))
    return statistics.median(found["seconds"]), found["settings"]


def run_ours(case: str, settings: Settings) -> tuple[float, dict[str, str]]:
    """Median seconds of a step in roofbench, in a fresh process."""
    axes = [f"--axis={family_of(case)}.{part.replace(':', '=', 1)}" for part in case.split("/")[1:]]
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        command: list[str | Path] = [
            settings.program,
            f"--benchmark_filter=^{case}$",
            *axes,
            f"--threads={settings.threads}",
            f"--allocator={settings.allocator}",
            f"--warmup_iters={WARMUPS}",
            f"--benchmark_min_time={settings.samples_of(case)}x",
            "--check=off",  # the tests have checked the case
            f"--journal={journal}",
        ]
        outcome(case, command)
        header, *lines = (json.loads(line) for line in journal.read_text().splitlines())
    if not lines or lines[0]["verdict"] != "measured":
        raise refusal(f"roofbench did not measure {case}: {lines[0].get('reason') if lines else 'no such case'}")
    context = header["context"]
    facts = {"revision": "roofbench_revision", "torch": "torch_version", "allocator": "allocator"}
    return lines[0]["median_s"], {name: context[key] for name, key in facts.items()}


def compare(case: str, rounds: int, settings: Settings) -> None:
    """Fresh processes in the order A B B A, so that a machine that slows down slows both."""
    sides = (run_ours, run_peer)
    seconds: tuple[list[float], list[float]] = ([], [])
    facts: list[dict[str, str]] = [{}, {}]
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            median, facts[side] = sides[side](case, settings)
            seconds[side].append(median)
    ours, theirs = (statistics.median(medians) for medians in seconds)
    pairs = [a / b for a, b in zip(*seconds, strict=True)]
    steps = settings.samples_of(case)
    print(
        f"{escaped(case)}: {settings.threads} threads, {settings.allocator} allocator, "
        f"{rounds} processes a side, {steps} steps each"
    )
    print(f"  roofbench       {1e3 * ours:10.3f} ms  {facts[0]}")
    print(f"  PyTorch eager   {1e3 * theirs:10.3f} ms  {facts[1]}")
    print(f"  ratio           {ours / theirs:10.2f}     ({min(pairs):.2f} to {max(pairs):.2f} by pairs)", flush=True)


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def main(arguments_given: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tools/peers train", description=__doc__)
    parser.add_argument("cases", nargs="*", default=DEFAULT_CASES, help="cases of train_step and mlp, by name")
    parser.add_argument("--rounds", type=count, default=4, help="processes a side and case")
    parser.add_argument("--samples", type=count, help="timed steps a process")
    parser.add_argument("--threads", type=count, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--allocator", choices=ALLOCATORS, default=ALLOCATORS[0], help="of both sides; roofbench --help says what it is"
    )
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "release" / "bin" / "roofbench")
    arguments = parser.parse_args(arguments_given)
    settings = Settings(arguments.program, arguments.threads, arguments.samples, arguments.allocator)
    for case in arguments.cases:
        if family_of(case) not in SAMPLES:
            parser.error(
                f"{case}: there are peers for the cases of {' and '.join(SAMPLES)}, such as {DEFAULT_CASES[0]}"
            )
    for case in arguments.cases:
        compare(case, arguments.rounds, settings)
