# SPDX-License-Identifier: Apache-2.0
"""Random command lines and environments: each is answered, refused or run, in order and in seconds."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

LONGEST_S = 300  # a run that hangs; an answer takes one or two, more where the machine does other things
PRECIOUS = "precious\n"

VALUES = (
    *("", "-", "=", ",", " ", "0", "1", "-1", "2x", "1e308", "-0.0", "nan", "inf", "9" * 30, "0x10", "1,2,x", "%s%n"),
    *("true", "false", "maybe", "on", "off", "auto", "cpu", "cuda:0", "json", "csv", "console", "quick", "full"),
    *("a=b", "a=b,a=c", "date=1", "n=16", "matmul.n=16,32", "dtype=fp32", "matmul.n=", ".="),
    *("\x1b[31m", "\udcff\udcfe"),
    *("(" * 300, "[", "a{1000}{1000}", r"(.*)*\1", "(.*)(.*)(.*)(.*)x$", "-.", "é" * 50, "x" * 20_000),
    *("{tmp}/new", "{tmp}/precious", "{tmp}/link", "{tmp}/no/folder", "{tmp}", "/dev/null", "/dev/full", "/"),
)
# Flags that take long when valid.
NEVER = {"help", "threads", "suite"}
# Last, so that they count: one case, one sample.
SMALL = (
    *("--benchmark_filter=^harness_overhead/", "--suite=quick", "--threads=1"),
    *("--benchmark_min_time=1x", "--warmup_iters=1", "--benchmark_repetitions=1"),
)
VARIABLES = (
    *("BENCHMARK_FILTER", "BENCHMARK_FORMAT", "BENCHMARK_OUT", "BENCHMARK_OUT_FORMAT", "BENCHMARK_CONTEXT"),
    *("BENCHMARK_COLOR", "BENCHMARK_MIN_TIME", "BENCHMARK_REPETITIONS", "BENCHMARK_LIST_TESTS"),
    *("BENCHMARK_ENABLE_RANDOM_INTERLEAVING", "BENCHMARK_REPORT_AGGREGATES_ONLY", "BENCHMARK_MIN_WARMUP_TIME"),
    *("HOME", "XDG_CACHE_HOME", "TMPDIR", "NO_COLOR", "LANG", "LC_ALL", "TERM", "COLUMNS", "CXX", "ROOFBENCH_PYTHON"),
    *("ROOFBENCH_RESTARTED", "OMP_WAIT_POLICY", "CUDA_VISIBLE_DEVICES", "THP_MEM_ALLOC_ENABLE"),
)


class Start(NamedTuple):
    flags: list[str]
    environment: dict[str, str]


def known_flags(program: Path) -> list[str]:
    text = subprocess.run([program, "--help=all"], capture_output=True, text=True, check=True).stdout
    return sorted(set(re.findall(r"^  --(\w+)", text, re.MULTILINE)) - NEVER)


def flag(names: list[str], chance: random.Random, folder: Path) -> str:
    name = chance.choice(names)
    if chance.random() < 0.1:
        name = name[: chance.randrange(len(name))] + chance.choice("-_=x") + name[chance.randrange(len(name)) :]
    dashes = chance.choice(("--", "--", "--", "-", "---", ""))
    value = chance.choice(VALUES).replace("{tmp}", str(folder))
    return dashes + name + ("" if chance.random() < 0.1 else f"={value}")


def command_line(names: list[str], chance: random.Random, folder: Path) -> Start:
    flags = [flag(names, chance, folder) for _ in range(chance.randrange(1, 5))]
    # Anything may be listed; what runs is small.
    return Start([*flags, "--benchmark_list_tests"] if chance.random() < 0.3 else [*flags, *SMALL], {})


def environment(chance: random.Random, folder: Path) -> Start:
    chosen = chance.sample(VARIABLES, chance.randrange(1, 5))
    return Start([*SMALL], {name: chance.choice(VALUES).replace("{tmp}", str(folder)) for name in chosen})


def broken_rules(done: subprocess.CompletedProcess[bytes], folder: Path) -> Iterator[str]:
    if done.returncode not in (0, 1, 2):
        yield f"ended with {done.returncode}"
    if done.returncode == 2 and b"roofbench: " not in done.stderr:
        yield "refused without a reason"
    if b"\x1b" in done.stderr:
        yield "let an escape pass to the terminal"
    for path in folder.iterdir():
        if path.name in ("precious", "link") or path.is_dir():
            continue
        if path.name.endswith(".part"):
            yield f"left {path.name}"
        text = path.read_bytes()
        try:
            for line in text.splitlines() if text.startswith(b'{"schema"') else [text]:
                json.loads(line)
        except ValueError:
            if text[:5] != b"name," and text:
                yield f"{path.name} is not a result: {text[:60]!r}"


def run(program: Path, start: Start, folder: Path) -> list[str]:
    (folder / "precious").write_text(PRECIOUS)
    (folder / "link").symlink_to("target")
    try:
        done = subprocess.run(
            [program, *start.flags],
            env={**os.environ, **start.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=LONGEST_S,
            cwd=folder,
        )
    except subprocess.TimeoutExpired:
        return [f"did not end in {LONGEST_S} s"]
    except (OSError, ValueError):
        return []  # the system cannot start it
    return list(broken_rules(done, folder))


def fuzz(program: Path, lines: int, environments: int, seed: int) -> list[str]:
    """One line for each rule that a start broke."""
    names = known_flags(program)
    chance = random.Random(seed)
    found = []
    for number in range(lines + environments):
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            start = command_line(names, chance, folder) if number < lines else environment(chance, folder)
            for rule in run(program, start, folder):
                shown = ascii([flag[:200] for flag in start.flags])
                found.append(f"{number}: {rule}: {shown} {ascii(start.environment)[:400]}")
    return found


@pytest.mark.parametrize(
    ("lines", "environments", "seed"),
    [
        pytest.param(8, 4, 20261122, marks=pytest.mark.slow),
        pytest.param(300, 150, 1, marks=pytest.mark.nightly),
    ],
)
def test_nothing_breaks(program: Path, lines: int, environments: int, seed: int) -> None:
    assert not fuzz(program, lines, environments, seed)
