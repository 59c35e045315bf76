# SPDX-License-Identifier: Apache-2.0
"""The GPU tests, counted one by one as they end, alone and under compute-sanitizer."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_checks import processes
from gpu_checks.step import OUTPUT_TAIL, Check, Step, Tools, finish

# The tests of each of our kernels. All of them also run under compute-sanitizer: `KERNEL_TESTS`.
TESTS_OF = {
    "Spin": ("KernelsTest.SpinEnds",),
    **dict.fromkeys(("ReadStream", "CopyStream", "UpdateStream", "WriteStream"), ("KernelsTest.StreamsAreRight",)),
    **dict.fromkeys(("RmsNormRows", "LayerNormRows", "SoftmaxRows"), ("KernelsTestNative.NormsAndSoftmax",)),
    "GemvRows": (
        "KernelsTestNative.Gemv",
        "KernelsTestNative.Int8Gemv",
        "KernelsTestNative.Int4GemvOfChosenExperts",
    ),
}
KERNEL_TESTS = "KernelsTest*"
RESTARTS = 8  # processes of one step: a fault of the device breaks all later tests of its process
PATIENCE = 1500.0  # seconds for one of them

_LINE = re.compile(r"^\[ +(RUN|OK|FAILED|SKIPPED) +\] ([\w/]+\.[\w/]+)", re.MULTILINE)
_ENDED = re.compile(r"^\[=+\] .* ran\.", re.MULTILINE)
# What tests print; tests/gpu has the formats.
_PRINTED = {
    "floor_us": re.compile(r"^floor ([\d.]+) us", re.MULTILINE),
    "launch_floor_us": re.compile(r"^launch floor ([\d.]+) us", re.MULTILINE),
    "graph_launch_floor_us": re.compile(r"^graph launch floor ([\d.]+) us", re.MULTILINE),
    "clock_over_kineto": re.compile(r"^clock .*: ratio ([\d.]+)", re.MULTILINE),
}
_RAMP = re.compile(r"^clock after (\d+) ms: (\d+) MHz", re.MULTILINE)


def failures_text(names: Sequence[str], number: int) -> str:
    return f"{number} test{'' if number == 1 else 's'} failed: {', '.join(names)}"


def outcomes(output: str) -> dict[str, str]:
    """ok, failed or skipped, by name, of the tests that ended, and `running` of another one."""
    found: dict[str, str] = {}
    for result, name in _LINE.findall(output):
        found[name] = "running" if result == "RUN" else result.lower()
    return found


def tests(chosen: Sequence[str], others: Sequence[str] = ()) -> Check:
    """The tests that match one of `chosen` and none of `others`, patterns of googletest's."""

    def check(tools: Tools, step: Step) -> None:
        if tools.gpu_test is None:
            step.judge("skipped", "gpu_test is missing: build with ROOFBENCH_TESTS=ON")
            return
        settled: dict[str, str] = step.figures.setdefault("tests", {})
        for restart in range(RESTARTS):
            reached = _one_process(tools, tools.gpu_test, step, settled, (chosen, others))
            # The first failure may have broken the device for those after it, which then run without it.
            failures = [name for name in reached if settled[name] == "failed"][1:]
            if restart + 1 < RESTARTS:
                for name in failures:
                    del settled[name]
            if not failures and all(settled[name] in ("ok", "skipped", "failed") for name in reached):
                break
        failed = [name for name, result in settled.items() if result not in ("ok", "skipped")]
        if failed:
            step.judge("failed", failures_text(failed[:5], len(failed)))
        elif "ok" not in settled.values():
            step.judge("failed", step.reason or "no test ran")
        elif step.status == "failed":  # by a test that passed in another process
            step.judge("unfinished", "")

    return check


def _one_process(
    tools: Tools, gpu_test: Path, step: Step, settled: dict[str, str], patterns: tuple[Sequence[str], Sequence[str]]
) -> list[str]:
    """Settles tests that are not, and returns those that it reached, in their order."""
    chosen, others = patterns
    earlier = dict(settled)

    def watch(output: str) -> None:
        ended = {name: result for name, result in outcomes(output).items() if result != "running"}
        if earlier | ended != settled:
            settled.update(ended)
            for figure, pattern in _PRINTED.items():
                if printed := pattern.search(output):
                    step.figures[figure] = float(printed[1])
            if ramp := _RAMP.findall(output):
                step.figures["clock_ramp_ms_mhz"] = [[float(word) for word in reading] for reading in ramp]
            tools.save()

    without = [*others, *earlier]
    flag = f"--gtest_filter={':'.join(chosen)}{'-' if without else ''}{':'.join(without)}"
    done = tools.run([gpu_test, flag], PATIENCE, watch)
    reached = outcomes(done.stdout)
    if done.returncode != 0:
        finish(step, done)
    if not _ENDED.search(done.stdout):
        settled |= {
            name: f"ended with status {done.returncode}" for name, result in reached.items() if result == "running"
        }
        if not reached:
            step.judge("failed", f"exit status {done.returncode}, and no test ran")
    return list(reached)


# Reports are blocks of lines with this prefix, without a text between them. What follows the words on the backtrace is
# about the host, whose functions have the names of our kernels, too.
_PREFIX = "========="
_HOST = "Saved host backtrace"
_NOT_REPORTS = ("COMPUTE-SANITIZER", "Target application returned an error", "Error: process didn't terminate")
_SUMMARY = re.compile(r"(ERROR|RACECHECK) SUMMARY: .*")
# LibTorch asks for things that a device may lack. A failed launch of ours fails our test.
_OF_CALLS = "Program hit "
# How both tools write a place in a kernel.
_PLACE = re.compile(r"\bat (?:void )?.+\+0x[0-9a-f]+")


def reports(output: str) -> dict[str, Any]:
    """What a sanitizer found: in which of our kernels (with the first line), in how many places that are not ours, and
    what cannot be attributed.
    """
    blocks: list[list[str]] = [[]]
    for line in output.splitlines():
        text = line.removeprefix(_PREFIX).strip()
        if not line.startswith(_PREFIX):
            continue
        if text:
            blocks[-1].append(text)
        elif blocks[-1]:
            blocks.append([])
    found: dict[str, Any] = {"summary": "", "blamed": {}, "elsewhere": 0, "unattributed": []}
    for block in blocks:
        lines = [line for line in block if not line.startswith(_NOT_REPORTS)]
        for line in [line for line in lines if _SUMMARY.match(line)]:
            found["summary"] = line
            lines.remove(line)
        if not lines:
            continue
        device = "\n".join(lines).partition(_HOST)[0]
        ours = [kernel for kernel in TESTS_OF if re.search(rf"\b{kernel}\b", device)]
        found["blamed"] |= {kernel: lines[0] for kernel in ours if kernel not in found["blamed"]}
        if ours:
            continue
        if lines[0].startswith(_OF_CALLS) or _PLACE.search(device):
            found["elsewhere"] += 1
        else:
            found["unattributed"].append(lines[0])
    return found


def sanitizer(tool: str) -> Check:
    def check(tools: Tools, step: Step) -> None:
        if tools.sanitizer is None:
            step.judge("skipped", "compute-sanitizer is not on PATH (the CUDA toolkit contains it)")
            return
        if tools.gpu_test is None:
            step.judge("skipped", "gpu_test is missing: build with ROOFBENCH_TESTS=ON")
            return
        # One process: starting LibTorch takes longer than the tests. Every tensor is an allocation of its own, so that
        # a read past its end is seen. LibTorch's kernels are not ours to judge, and checking them takes minutes.
        command: list[str | Path] = [tools.sanitizer, "--tool", tool, "--error-exitcode", "9"]
        command += [word for kernel in TESTS_OF for word in ("--kernel-name", f"kns={kernel}")]
        command += [tools.gpu_test, f"--gtest_filter={KERNEL_TESTS}"]
        done = tools.run(command, PATIENCE, environment=os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
        step.output = done.stdout[-OUTPUT_TAIL:]
        # Output may be late, so that only a process that ended has found all.
        step.figures = {"tests": outcomes(done.stdout), **reports(done.stdout)}
        _judge(step, done.returncode)

    return check


def _judge(step: Step, status: int) -> None:
    found = step.figures
    failed = [name for name, result in found["tests"].items() if result not in ("ok", "skipped")]
    if status == processes.TIMED_OUT or not found["summary"]:
        step.judge("failed", f"it ended with status {status} and without a summary")
    elif found["blamed"]:
        step.judge("failed", "; ".join(f"{kernel}: {line}" for kernel, line in found["blamed"].items()))
    elif found["unattributed"]:
        step.judge("failed", found["unattributed"][0])
    elif failed:
        step.judge("failed", failures_text(failed, len(failed)))
    elif "ok" not in found["tests"].values():
        step.judge("failed", "no test ran")


def is_clean(kernel: str, figures: Mapping[str, Any]) -> bool:
    """Whether the kernel's tests passed in a step, and no sanitizer blames it or something that may be it."""
    passed = all(figures.get("tests", {}).get(test) == "ok" for test in TESTS_OF[kernel])
    return passed and kernel not in figures.get("blamed", {}) and not figures.get("unattributed")


def is_sanitized(kernel: str, figures: Mapping[str, Any]) -> bool:
    return bool(figures.get("summary")) and is_clean(kernel, figures)
