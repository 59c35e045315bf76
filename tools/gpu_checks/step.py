# SPDX-License-Identifier: Apache-2.0
"""A step of the checks, and what it has at hand."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_checks import processes

OUTPUT_TAIL = 4000  # characters of a step's output that the file keeps


@dataclass
class Step:
    name: str
    status: str = "unfinished"  # or passed, failed, skipped
    reason: str = ""
    seconds: float = 0.0
    expected_s: float = 0.0  # what the plan expected
    figures: dict[str, Any] = field(default_factory=dict)
    output: str = ""

    def judge(self, status: str, reason: str) -> None:
        self.status, self.reason = status, reason


@dataclass
class Tools:
    roofbench: Path
    gpu_test: Path | None
    sanitizer: str | None
    python: str
    folder: Path  # next to the result file: what the programs write
    save: Callable[[], None]  # writes the result file, with what the unfinished step has so far
    deadline: float = float("inf")  # of time.monotonic()
    ranks: int = 2  # GPUs that exchange data
    patience: float = float("inf")  # seconds for one program: one that hangs must not take the time of later steps

    def run(
        self,
        command: list[str | Path],
        timeout: float,
        watch: Callable[[str], None] = lambda _output: None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        return processes.run(command, min(timeout, self.patience), self.deadline, watch, environment)


# Continues a step that an earlier call began. Its results so far are kept when the call ends.
Check = Callable[[Tools, Step], None]


def finish(step: Step, done: subprocess.CompletedProcess[str]) -> None:
    step.output = done.stdout[-OUTPUT_TAIL:]
    if done.returncode != 0:
        step.judge("failed", f"exit status {done.returncode}")
