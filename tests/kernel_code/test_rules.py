# SPDX-License-Identifier: Apache-2.0
"""The rules catch kernels that break them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_code import rules, sass
from kernel_code.rules import Rule, violations
from kernel_code.sass import Kernel

PLANTED = Path(__file__).with_name("planted.cu")
WANTED = {
    "Good": None,
    "ScalarStores": r"0 stores of 16 bytes, not 1",
    "OneInFlight": r"1 loads of 16 bytes in flight, not 4",
    "ScalarLoads": r"0 loads of 16 bytes in flight, not 4",
    "LongDivision": r"it divides: CALL\.REL\.NOINC",
    "IntDivision": r"it divides: I2F\.(U32\.)?RP",
    "FloatDivision": r"it divides: (FCHK|CALL\.REL\.NOINC)",
    "Spilled": r"it spills: \d+ bytes of local memory",
    "Unbounded": r"it has no __launch_bounds__",
}
MOVES_NOTHING = {"LongDivision", "IntDivision", "FloatDivision", "Spilled"}


def nvcc() -> str:
    found = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if found is None:
        pytest.skip("no nvcc compiles what is planted")
    return found


@pytest.fixture(scope="module")
def all_planted(tmp_path_factory: pytest.TempPathFactory) -> list[Kernel]:
    binary = tmp_path_factory.mktemp("planted") / "planted.fatbin"
    codes = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in (80, 90)]
    subprocess.run([nvcc(), "-O3", "-fatbin", *codes, "-o", binary, PLANTED], check=True)
    try:
        return sass.read_kernels(binary)
    except sass.DumpError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["sm_80", "sm_90"])
def planted(all_planted: list[Kernel], request: pytest.FixtureRequest) -> dict[str, Kernel]:
    return {kernel.name: kernel for kernel in all_planted if kernel.arch == request.param}


@pytest.fixture(autouse=True)
def rules_of_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Rule(loads=4, stores=1)
    planted_rules: dict[str, Rule | None] = {name: None if name in MOVES_NOTHING else streams for name in WANTED}
    planted_rules["ScalarLoads"] = Rule(loads=4)
    monkeypatch.setattr(rules, "RULES", planted_rules)


def test_all_that_is_planted_was_compiled(planted: dict[str, Kernel]) -> None:
    assert set(planted) == set(WANTED)


@pytest.mark.parametrize("name", WANTED)
def test_a_kernel_that_breaks_a_rule_is_caught(planted: dict[str, Kernel], name: str) -> None:
    found = list(violations(planted[name]))
    wanted = WANTED[name]
    if wanted is None:
        assert found == []
    else:
        assert re.fullmatch(wanted + r".*", found[0]), found


def test_registers_that_do_not_fit_the_threads_are_caught(planted: dict[str, Kernel]) -> None:
    kernel = replace(planted["Good"], registers=65, most_threads=1024)
    assert list(violations(kernel)) == ["65 registers do not fit 1024 threads"]


def test_loads_through_l1_are_caught(planted: dict[str, Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rules.RULES, "Good", Rule(loads=4, past_l1=True))
    (found,) = violations(planted["Good"])
    assert found.startswith("it reads or writes through L1: LDG.E.128.CONSTANT at 0x")


def test_too_few_bytes_in_flight_are_caught(planted: dict[str, Kernel]) -> None:
    kernel = replace(planted["Good"], registers=255)
    wanted = {"sm_80": [], "sm_90": ["16384 bytes in flight on a multiprocessor, not 30720"]}
    assert list(violations(kernel)) == wanted[kernel.arch]


def test_a_kernel_without_a_rule_is_an_error() -> None:
    with pytest.raises(KeyError, match="Unknown"):
        rules.rule_of(Kernel("Unknown<float>", "sm_90", 32, 0, 0, 0))
