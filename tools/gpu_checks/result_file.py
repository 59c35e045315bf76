# SPDX-License-Identifier: Apache-2.0
"""The one file of results, and what it proves."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_code import measured

from gpu_checks import suites, tests
from gpu_checks.step import Step

SCHEMA = "roofbench-gpu-check-2"
# Shares of a datasheet's bandwidth that a kernel may reach: less than a quarter of the expectation, or more than the
# memory has, is a fault of the kernel or of its time until someone has looked.
LEAST_OF_EXPECTED = 0.25
MOST = 1.02


def earlier(out: Path) -> dict[str, Step]:
    """The steps of earlier calls, by name."""
    if not out.exists():
        return {}
    result = json.loads(out.read_text())
    if result.get("schema") != SCHEMA:
        print(f"gpu_check: {out} is not a result of this gpu_check: name another file with --out", file=sys.stderr)
        raise SystemExit(2)
    return {step["name"]: Step(**step) for step in result["steps"]}


def write(out: Path, steps: Sequence[Step]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "schema": SCHEMA,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **{which: [step.name for step in steps if step.status == which] for which in ("failed", "unfinished")},
        "device": device_of(steps),
        **_proven(steps),
        "steps": [vars(step) for step in steps],
    }
    # Atomic; follows a link at `out`, and never one at the temporary name.
    target = Path(os.path.realpath(out))
    partial = target.with_name(f".{secrets.token_hex(8)}.part")
    with partial.open("x") as file:
        file.write(json.dumps(result) + "\n")
    partial.replace(target)


def _proven(steps: Sequence[Step]) -> dict[str, Any]:
    # The figures are worth more than the list: one of an unexpected form must not keep the file from being written.
    try:
        return {"verified": verified({step.name: step for step in steps})}
    except Exception as error:
        return {"verified": [], "verified_fault": f"{type(error).__name__}: {error}"}


def device_of(steps: Sequence[Step]) -> str | None:
    """The device's name in the results of the suite."""
    for step in steps:
        began = step.figures.get("journal") or [{}]
        for context in (step.figures.get("results", {}).get("context", {}), began[0].get("context", {})):
            if "device" in context:
                return str(context["device"])
    return None


def verified(steps: Mapping[str, Step]) -> list[str]:
    """Parts that ran here without a fault, as lib/device/unverified.cc names them: each of our kernels if its own tests
    passed, alone and under both sanitizers, and all of its variants have a plausible share, whatever else failed or is
    missing; Inductor's packages if a case of them ran; NCCL if all collectives did; shared steps if all of them did.
    """
    names = set(_kernels(steps))
    status = {name: step.status for name, step in steps.items()}
    if status.get("compiled") == "passed":
        cases = suites.iterations(steps["compiled"].figures["results"])
        names |= {"InductorPackage" for case in cases if not case.get("error_occurred")}
    if status.get("collectives") == "passed":
        ran = {name.partition("/")[0] for name in steps["collectives"].figures["busbw"]}
        names |= {"NcclGroup"} if ran == set(suites.COLLECTIVES) else set()
        shared = steps["collectives"].figures.get("shared", {}).values()
        names |= {"SharedStep"} if shared and None not in shared else set()
    return sorted(names)


def _kernels(steps: Mapping[str, Step]) -> Iterator[str]:
    figures = {name: step.figures for name, step in steps.items()}
    # Any run of the program measures some of the streams.
    contexts = [suites.so_far(of_step)[0] for of_step in figures.values()]
    context = {name: value for found in contexts for name, value in found.items()}
    rows = measured.rows({"context": context}, suites.so_far(figures.get("kernels", {}))[1])
    for kernel in tests.TESTS_OF:
        if not tests.is_clean(kernel, figures.get("kernels_test", {})):
            continue
        if not all(tests.is_sanitized(kernel, figures.get(tool, {})) for tool in ("memcheck", "racecheck")):
            continue
        of_kernel = [row for row in rows if row["kernel"].split("<")[0] == kernel]
        if all(map(is_plausible, of_kernel)) if of_kernel else _spins_in_time(figures):
            yield kernel


def is_plausible(row: Mapping[str, Any]) -> bool:
    share, expected = row["measured"], row["expected_not_measured"] or 0.9
    return share is not None and bool(LEAST_OF_EXPECTED * expected <= share <= MOST)


def _spins_in_time(figures: Mapping[str, Mapping[str, Any]]) -> bool:
    """Of a kernel that moves no data and therefore has no share."""
    ended: Mapping[str, str] = figures.get("clock_test", {}).get("tests", {})
    return ended.get("ClockTest.ASpinEndsWhenItShould") == "ok"


def accept(root: Path, result: Path) -> int:
    """Moves what a result verified from the table of the sources to the list of the GPUs that ran it."""
    table = root / "lib/device/unverified.cc"
    ran = root / "tests/structure/verified_kernels.json"
    if not table.exists():
        print(f"gpu_check: --accept changes {table}, which is not here: use it in the sources", file=sys.stderr)
        return 2
    steps = earlier(result)
    known = json.loads(ran.read_text())
    source = table.read_text()
    for kernel in verified(steps):
        source, rows = re.subn(rf'^    {{"{kernel}", .*\n', "", source, flags=re.MULTILINE)
        if rows:
            known[kernel] = device_of(list(steps.values()))
            print(f"{kernel}: {known[kernel]}")
    table.write_text(source)
    ran.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return 0
