# SPDX-License-Identifier: Apache-2.0
"""A rehearsal of the minutes on a GPU: programs that take plausible times of a fake clock, and a machine that is taken
away at any moment of them.
"""

from __future__ import annotations

import fnmatch
import json
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gpu_checks import __main__ as gpu_check
from gpu_checks import plan, processes, result_file
from gpu_checks import tests as gpu_tests
from gpu_checks.step import Step, Tools
from kernel_code import measured

START = 6.0  # seconds of a program's start on such a machine
TIMES = {"KernelsTest": 0.8, "ClockTest": 1.5, "DeviceTest": 2.0, "Families": 2.0}
TESTS = [
    *sorted({test for tests in gpu_tests.TESTS_OF.values() for test in tests}),
    *(f"ClockTest.{name}" for name in ("AgreesWithKineto", "ASpinEndsWhenItShould", "MarksGrow")),
    *(f"DeviceTest.{name}" for name in ("HasFacts", "RoofsAreSane", "Tf32IsAPropertyOfTheCase")),
    *(f"Families/CasesTest.IsRight/{number}" for number in range(50)),
]
CONTEXT = {"device": "NVIDIA H200", "gpu_datasheet": "h200", **dict.fromkeys(measured.ROOFS.values(), "4.2e12")}
GEMV = ("bf16/", "fp32/", "int4/", "int8/", "int8/batch:2/", "int8/batch:4/", "int8/batch:8/")
KERNEL_CASES = [
    *(f"gemv/impl:native/precision:{case}n:{n}" for case in GEMV for n in (8192, 16384)),
    "gemv/impl:native/precision:int8/n:8200",
    *(
        f"{family}/impl:native/dtype:{dtype}/rows:65536/d:{d}"
        for family in ("layer_norm", "rms_norm", "softmax")
        for dtype in ("bf16", "fp32")
        for d in (256, 4096, 8192)
    ),
]
# Cases of each suite, and seconds of one.
SUITES = {
    "quick": (20, 2.6),
    "kernels": (len(KERNEL_CASES), 1.5),
    "collectives": (0, 0.0),
    "generation": (10, 15.0),
    "chosen": (7, 9.0),
    "training": (8, 13.0),
    "compiled": (6, 23.0),
}
SKIPPED: dict[str, object] = {"name": "all_reduce/impl:nccl/ranks:2", "real_time": 0.0, "skip_message": "needs 2 GPUs"}


class TakenAway(BaseException):
    """Nothing of the command runs after it, as after SIGKILL."""


class Gpu:
    """The programs of a machine, and its clock. Remembers when each figure was reached."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.now = 0.0
        self.end = float("inf")
        self.reached: list[tuple[str, str, float]] = []

    def passes(self, seconds: float) -> None:
        if self.now + seconds >= self.end:
            self.now = self.end
            raise TakenAway
        self.now += seconds

    def call(self, *flags: str, taken_away_after: float = float("inf")) -> int | None:
        """The exit status of the command, None if the machine was taken away."""
        self.end = self.now + taken_away_after
        programs = [f"--{name}=/bin/true" for name in ("roofbench", "gpu_test", "sanitizer", "python")]
        try:
            return gpu_check.main([*programs, f"--out={self.out}", *flags])
        except TakenAway:
            return None

    def write(self, out: Path, steps: Sequence[Step]) -> None:
        if self.now < self.end:
            WRITE(out, steps)

    def run(
        self,
        command: Sequence[str | Path],
        timeout: float,
        deadline: float = float("inf"),
        watch: Callable[[str], None] = lambda _output: None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in command]
        until = min(self.now + timeout, deadline)
        printed = ""
        for seconds, output, reach in self.program(words):
            if self.now + seconds > until:
                self.passes(max(0.0, until - self.now))
                if deadline <= until:
                    raise processes.OutOfTimeError(printed)
                return subprocess.CompletedProcess(words, processes.TIMED_OUT, printed)
            self.passes(seconds)
            printed += output
            reach()
            watch(printed)
        return subprocess.CompletedProcess(words, 0, printed)

    def program(self, words: Sequence[str]) -> Iterator[tuple[float, str, Callable[[], object]]]:
        """Its parts: seconds, what it prints after them, and what it does."""
        flags = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
        if "--tool" in words:
            return self.sanitizer(words[words.index("--tool") + 1], flags["--gtest_filter"])
        if "--gtest_filter" in flags:
            return self.tests("gpu_test", flags["--gtest_filter"], 1.0)
        if "--journal" in flags:
            return self.suite(Path(flags["--journal"]), Path(flags["--benchmark_out"]))
        if "--benchmark_out" in flags:
            return self.our_product(Path(flags["--benchmark_out"]))
        if "statistics" in str(words):
            return self.part(START + 2, json.dumps({"median_s": 1.4e-3, "products": 700}), ("torch", "product"))
        return self.part(START if "assert" in str(words) or "harness" in str(words) else 0.2, "")

    def part(
        self, seconds: float, output: str, *figures: tuple[str, str]
    ) -> Iterator[tuple[float, str, Callable[[], object]]]:
        yield seconds, output, lambda: self.reached.extend((kind, name, self.now) for kind, name in figures)

    def tests(self, kind: str, patterns: str, slower: float) -> Iterator[tuple[float, str, Callable[[], object]]]:
        wanted, _, unwanted = patterns.partition("-")
        yield START * slower, "", lambda: None
        for test in TESTS:
            matches = [any(fnmatch.fnmatchcase(test, one) for one in of.split(":")) for of in (wanted, unwanted)]
            if matches == [True, False]:
                seconds = next(seconds for start, seconds in TIMES.items() if test.startswith(start))
                yield from self.part(seconds * slower, f"[       OK ] {test} (1 ms)\n", (kind, test))
        yield 0.1, "[==========] some tests ran. (1 ms total)\n", lambda: None

    def sanitizer(self, tool: str, patterns: str) -> Iterator[tuple[float, str, Callable[[], object]]]:
        for seconds, output, _ in self.tests(tool, patterns, 3.0):
            yield seconds, output, lambda: None
        yield from self.part(0.1, "========= ERROR SUMMARY: 0 errors\n", (tool, tool))

    def suite(self, journal: Path, out: Path) -> Iterator[tuple[float, str, Callable[[], object]]]:
        cases, seconds = SUITES[journal.stem]
        names = KERNEL_CASES if journal.stem == "kernels" else [f"{journal.stem}/case:{n}" for n in range(cases)]
        known = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
        yield START, "", lambda: None
        if not known:
            yield 3.0, "", lambda: journal.write_text(json.dumps({"context": CONTEXT}) + "\n")
        for name in names:
            if name in [line.get("name") for line in known]:
                continue

            def reach(name: str = name) -> None:
                with journal.open("a") as lines:
                    line = {"name": name, "verdict": "measured", "counters": {"mem_util": 0.8}}
                    lines.write(json.dumps(line) + "\n")
                self.reached.append((journal.stem, name, self.now))

            yield seconds, "", reach
        rows: list[dict[str, object]] = [{"name": name, "real_time": 1.0, "mem_util": 0.8} for name in names] or [
            SKIPPED
        ]
        yield 0.5, "", lambda: out.write_text(json.dumps({"context": CONTEXT, "benchmarks": rows}))

    def our_product(self, out: Path) -> Iterator[tuple[float, str, Callable[[], object]]]:
        row = {"name": "p", "real_time": 1.4, "time_unit": "ms"}

        def reach() -> None:
            out.write_text(json.dumps({"context": CONTEXT, "benchmarks": [row]}))
            self.reached.append(("ours", "product", self.now))

        yield START + 2, "", reach

    def acceptable(self) -> set[str]:
        """Our kernels that all programs have finished with, by their log."""
        done = {(kind, name) for kind, name, _ in self.reached}
        if not {("memcheck", "memcheck"), ("racecheck", "racecheck")} <= done:
            return set()
        cases = {name for kind, name in done if kind == "kernels"}
        # A run of any suite has measured the streams.
        began = self.steps().get("kernels", {}).get("figures", {})
        found = {"Spin", *(stream for stream in measured.ROOFS if "journal" in began or "results" in began)}
        variants = {kernel: any(re.search(names, case) for case in cases) for kernel, names in measured.CASES.items()}
        for kernel in {variant.split("<")[0] for variant in variants}:
            if all(ran for variant, ran in variants.items() if variant.split("<")[0] == kernel):
                found.add(kernel)
        return {kernel for kernel in found if all(("gpu_test", test) in done for test in gpu_tests.TESTS_OF[kernel])}

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.read_text())
        return found

    def steps(self) -> dict[str, dict[str, Any]]:
        return {step["name"]: step for step in self.result()["steps"]}

    def kept(self) -> Counter[tuple[str, str]]:
        """The figures of the file."""
        found: Counter[tuple[str, str]] = Counter()
        for name, step in self.steps().items():
            figures = step["figures"]
            if name in ("memcheck", "racecheck"):
                found[name, name] += bool(figures.get("summary"))
                continue
            found.update(("gpu_test", test) for test in figures.get("tests", []))
            found.update((side, "product") for side in ("torch", "ours") for _ in figures.get(side, []))
            lines = figures.get("results", {}).get("benchmarks", figures.get("journal", []))
            found.update((name, line["name"]) for line in lines if "name" in line and "skip_message" not in line)
        return found


WRITE = result_file.write


@contextmanager
def no_readings(_command: Sequence[str], lines: list[str]) -> Iterator[None]:
    yield
    lines.append("1410, 690, 60")


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu(tmp_path / "result.json")
    monkeypatch.setattr(processes, "run", gpu.run)
    monkeypatch.setattr(processes, "meanwhile", no_readings)
    monkeypatch.setattr(time, "monotonic", lambda: gpu.now)
    monkeypatch.setattr(result_file, "write", gpu.write)
    return gpu


_RANDOM = random.Random(51)
MOMENTS = sorted(_RANDOM.uniform(60, 540) for _ in range(20))


# With each change, some: before the kernels are accepted, while they are, and late.
_FEW = (2, 9, 17)


@pytest.mark.parametrize(
    "moment", [pytest.param(moment, marks=[] if i in _FEW else pytest.mark.nightly) for i, moment in enumerate(MOMENTS)]
)
def test_a_check_that_is_ended_leaves_all_that_it_reached(gpu: Gpu, moment: float) -> None:
    # Nothing limits the call itself: the machine is gone without a word.
    assert gpu.call(taken_away_after=moment) is None
    reached = Counter((kind, name) for kind, name, _ in gpu.reached)
    assert gpu.kept() == reached, "every figure, and no other"
    assert set(gpu.result()["verified"]) == gpu.acceptable()

    gpu.out.with_suffix(".parts").rename(gpu.out.parent / "lost")  # the next machine has the one file
    assert gpu.call() == 0
    again = Counter((kind, name) for kind, name, _ in gpu.reached) - gpu.kept()
    assert not again, "nothing is repeated that is in the file"
    assert set(gpu.result()["verified"]) == {*gpu_tests.TESTS_OF, "InductorPackage"}
    statuses = {name: step["status"] for name, step in gpu.steps().items()}
    assert statuses.pop("collectives") == "skipped", "one GPU"
    assert set(statuses.values()) == {"passed"}


def test_the_moments_meet_kernels_that_are_accepted_and_that_are_not(gpu: Gpu) -> None:
    assert gpu.call(taken_away_after=MOMENTS[0]) is None
    assert gpu.acceptable() == set()
    assert gpu.call(taken_away_after=MOMENTS[-1] - MOMENTS[0]) is None
    assert gpu.acceptable() == set(gpu_tests.TESTS_OF)


def test_a_plan_drops_what_does_not_fit_and_says_so(gpu: Gpu, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.call("--budget=540") == 3
    assert gpu.now <= 540
    printed = capsys.readouterr().out
    assert f"where a program starts in {START:.1f} s" in printed, "measured"
    for name, row in list(plan.STEPS.items())[1:]:
        assert re.search(rf"^  {name} +~ *\d+ s  worth +{row.worth}  .*{re.escape(row.gives)}$", printed, re.MULTILINE)
    steps = gpu.steps()
    assert set(gpu_tests.TESTS_OF) <= set(gpu.result()["verified"]), "what is worth most fits"
    dropped = [name for name, step in steps.items() if step["status"] == "unfinished"]
    assert dropped
    for name in dropped:
        assert f"dropped: {plan.STEPS[name].gives}" in printed
        assert re.search(rf"^{name}: dropped: it takes some \d+ s, of \d+ s", printed, re.MULTILINE)
    resumed = [name for name in dropped if steps[name]["figures"]]
    assert len(resumed) == 1, "what is left of the time goes to one of them"
    assert gpu.call("--budget=540") in (0, 3)
    assert gpu.call() == 0, "later calls do the others"
    assert not Counter((kind, name) for kind, name, _ in gpu.reached) - gpu.kept(), "and nothing twice"


def test_a_plan_without_time_says_what_it_drops(gpu: Gpu, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.call("--budget=70", "--only=facts,training,memcheck") == 3
    assert "dropped: it takes some 42 s" in capsys.readouterr().out
    assert gpu.steps()["memcheck"]["reason"].startswith("dropped: it takes some 42 s, of ")
    assert gpu.now <= 70


def test_a_program_that_hangs_does_not_take_the_time_of_others(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TIMES, "DeviceTest", 1e6)
    assert gpu.call("--budget=540") == 3
    steps = gpu.steps()
    assert steps["device_test"]["status"] == "failed"
    assert steps["kernels"]["status"] == "passed"


@pytest.mark.parametrize("name", plan.STEPS)
def test_an_exception_ends_only_its_step(gpu: Gpu, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def check(_tools: Tools, step: Step) -> None:
        step.figures["half"] = 1
        raise ZeroDivisionError("float division by zero")

    for suite in SUITES:
        monkeypatch.setitem(SUITES, suite, (min(1, SUITES[suite][0]), 1.0))
    row = plan.STEPS[name]
    broken = plan.Row(check, row.starts, row.seconds, row.worth, row.gives)
    monkeypatch.setitem(plan.STEPS, name, broken)
    assert gpu.call() == 1
    steps = gpu.steps()
    assert list(steps) == list(plan.STEPS)
    assert gpu.result()["failed"] == [name]
    assert steps[name]["reason"] == "ZeroDivisionError: float division by zero"
    assert "in check" in steps[name]["output"], "where"
    assert steps[name]["figures"] == {"half": 1}
    monkeypatch.setitem(plan.STEPS, name, row)
    assert gpu.call() == (0 if name == "facts" else 1), "the next call is not ended by it either"
    assert gpu.call(f"--only={name}") == 0


def test_the_steps_are_in_the_order_of_their_worth() -> None:
    worths = [row.worth for row in plan.STEPS.values()]
    assert worths == sorted(worths, reverse=True)
    of_kernels = list(plan.STEPS)[: list(plan.STEPS).index("kernels") + 1]
    assert sum(plan.STEPS[name].cost(START) for name in of_kernels) < 300, "our kernels are accepted within one call"
