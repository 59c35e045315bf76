#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the time of a profiled step is, for every family on one thread: in operators and kernels, or between them.

For a quiet machine. Takes the largest quick case of each family, implementation and precision, and a case each of the
families that have none; those that need a checkpoint, a compiler or a GPU are left out. Exits with 1 if more of a step
that is long enough is between them, and not because they are recorded, than the limit leaves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = {"complete", "quality", "published"}  # published is generate at sizes of large GPUs
LEFT_OUT_IMPLEMENTATIONS = {"impl:compiled", "impl:graph"}
KINDS = ("impl:", "dtype:", "precision:")
FLAGS = ("--threads=1", "--check=off", "--roof_share=0", "--warmup_iters=1", "--benchmark_min_time=3x")
SMALLER = ("--axis=decode.model=llama3_1b_4th",)


def listed(program: Path, suite: str) -> list[str]:
    command = [str(program), "--benchmark_list_tests", f"--suite={suite}", *SMALLER]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def kind_of(name: str) -> tuple[str, ...]:
    family, *axes = name.split("/")
    return (family, *(axis for axis in axes if axis.startswith(KINDS)))


def chosen(program: Path) -> list[str]:
    quick = listed(program, "quick")
    families = {kind_of(name)[0] for name in quick} | LEFT_OUT
    cases = {kind_of(name): name for name in quick}
    found = {kind[:2] for kind in cases}
    for name in listed(program, "full"):
        kind = kind_of(name)
        if kind[0] not in families and kind[:2] not in found:
            found.add(kind[:2])
            cases[kind] = name
    return sorted(name for kind, name in cases.items() if not LEFT_OUT_IMPLEMENTATIONS & set(kind))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "release" / "bin" / "roofbench")
    parser.add_argument("--filter", help="these cases of suite full instead")
    parser.add_argument("--flag", action="append", default=[], help="for the program, as --flag=--checkpoint=FOLDER")
    parser.add_argument("--limit", type=float, default=0.95, help="least share of both that passes")
    parser.add_argument("--least_ms", type=float, default=1, help="shorter steps are told and not judged")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keep the profiles there")
    arguments = parser.parse_args()
    cases = arguments.filter or f"^({'|'.join(chosen(arguments.program))})$"
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        flags = [*FLAGS, *SMALLER, "--suite=full", f"--profile={folder}", f"--profile_steps={arguments.steps}"]
        flags += arguments.flag
        command = [str(arguments.program), *flags, f"--benchmark_filter={cases}"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        files = [path for path in folder.glob("*.json") if ".trace." not in path.name]
        profiles = [json.loads(path.read_text()) for path in files]
    if done.returncode != 0 or not profiles:
        sys.exit(f"{arguments.program} ended with {done.returncode}; why is said above")
    passed = True
    print(f"{'work':>6} {'own':>6} {'both':>6} {'profiled':>11} {'recorded':>9}   (of the median without the profiler)")
    for profile in sorted(profiles, key=lambda one: one["covered"] + one["profiler_own"]):
        both = profile["covered"] + profile["profiler_own"]
        is_judged = profile["profiled_ms"] >= arguments.least_ms
        is_low = is_judged and both < arguments.limit
        passed = passed and not is_low
        note = f"   below {arguments.limit}" if is_low else "" if is_judged else "   too short to judge"
        slower = profile["stopwatch_ms"] / profile["timed_ms"] if profile["timed_ms"] > 0 else 0
        shares = f"{profile['covered']:6.3f} {profile['profiler_own']:6.3f} {both:6.3f}"
        print(f"{shares} {profile['profiled_ms']:8.3f} ms {slower:9.2f}   {profile['case']}{note}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
