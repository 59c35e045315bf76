# SPDX-License-Identifier: Apache-2.0
"""All checks that need a GPU, in one command and one result file.

Runs the steps below in the order of their worth. Requires only Python 3.10; a step whose tool is missing
(compute-sanitizer, PyTorch), or for which there are too few GPUs, is skipped with a reason. One that fails ends only
itself.

Writes one JSON file with the figures and output of every step, and each figure within a second. It lists under
`verified` what it proves so far: each of our kernels alone, as soon as its tests, both sanitizers and its share of the
bandwidth are there. If a call ends early, by --limit or killed, the same command continues where the file ends, also on
another machine of the same kind that has nothing but the file and the programs.

--budget=540 plans a call of so many seconds: it prints what each step costs and is worth, and drops those that do not
fit. Time that is left at the end goes to the first dropped step that keeps what it reaches.

Exit status: 0 all steps passed, 1 a step failed, 2 no GPU or no program, 3 out of time: call it again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_checks import processes, result_file
from gpu_checks.plan import LEAST_S, START_S, STEPS, Row, fits, lines, remaining
from gpu_checks.processes import GRACE, OutOfTimeError
from gpu_checks.step import OUTPUT_TAIL, Step, Tools

ROOT = Path(__file__).resolve().parent.parent.parent


def find_gpu(roofbench: Path, deadline: float) -> str:
    """The reason why a usable GPU is missing; empty if there is one."""
    smallest = ["--benchmark_filter=^harness_overhead/", "--benchmark_min_time=1x", "--roofs=off"]
    try:
        done = processes.run([roofbench, "--device=cuda", *smallest], 300, deadline)
    except OSError as error:
        return f"{roofbench} does not start: {error}"
    if done.returncode == 0:
        return ""
    found = [line for line in done.stdout.splitlines() if "--device=cuda" in line]
    return found[-1] if found else f"roofbench --device=cuda ended with status {done.returncode}:\n{done.stdout}"


def first_existing(paths: Sequence[Path]) -> Path | None:
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    steps = "\n".join(lines(STEPS, {}, list(STEPS), START_S, float("inf")))
    parser = argparse.ArgumentParser(
        prog="gpu_check",
        description=f"{__doc__}\nSteps, with estimates of their cost:\n{steps}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--prefix", type=Path, help="a build folder or an installed tree, with bin/roofbench")
    parser.add_argument("--roofbench", type=Path, help="the program (bin/roofbench of the prefix)")
    parser.add_argument("--gpu_test", type=Path, help="the GPU tests (gpu_test of the prefix)")
    parser.add_argument("--sanitizer", default=shutil.which("compute-sanitizer"), help="compute-sanitizer")
    parser.add_argument("--python", default=None, help="a Python with PyTorch (.venv, then python3)")
    parser.add_argument("--ranks", type=int, default=2, help="GPUs that exchange data in the step collectives (2)")
    parser.add_argument("--only", default="", help="only these steps, separated by commas")
    parser.add_argument(
        "--out",
        type=Path,
        help="the result file (results/local/gpu_check-<UTC time>.json); an existing one is continued",
    )
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for this call")
    parser.add_argument(
        "--budget", type=float, default=float("inf"), help="seconds for this call, which are planned: also its limit"
    )
    parser.add_argument(
        "--accept", type=Path, metavar="RESULT", help="take the kernels that a result verified as verified, and end"
    )
    found = parser.parse_args(arguments)
    prefixes = [found.prefix] if found.prefix else [ROOT, ROOT / "build/release", ROOT.parent]
    found.roofbench = found.roofbench or first_existing([prefix / "bin/roofbench" for prefix in prefixes])
    if found.gpu_test is None and found.roofbench is not None:
        programs = found.roofbench.parent
        found.gpu_test = first_existing([programs / "gpu_test", programs.parent / "libexec/roofbench/gpu_test"])
    venv = first_existing([ROOT / ".venv/bin/python"])
    found.python = found.python or (str(venv) if venv else sys.executable)
    found.only = [name for name in found.only.split(",") if name]
    unknown = sorted(set(found.only) - set(STEPS))
    if unknown:
        parser.error(f"--only={','.join(unknown)}: unknown step; there are {', '.join(STEPS)}")
    if found.ranks < 2:
        parser.error(f"--ranks={found.ranks}: collectives need 2 GPUs or more")
    if found.out is None:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        found.out = ROOT / "results/local" / f"gpu_check-{stamp}.json"
    return found


def main(arguments: Sequence[str]) -> int:
    began = time.monotonic()
    options = parse(arguments)
    if options.accept is not None:
        return result_file.accept(ROOT, options.accept)
    if options.roofbench is None or not os.access(options.roofbench, os.X_OK):
        named = options.roofbench or "bin/roofbench"
        print(f"gpu_check: {named} is missing: build it, or name it with --prefix or --roofbench", file=sys.stderr)
        return 2
    call = Call.of(options, began)
    try:
        if missing := call.run():
            print(f"gpu_check: no GPU to check: {missing}", file=sys.stderr)
            return 2
    except OutOfTimeError:
        print(f"out of time; the same command with --out={options.out} continues")
        return 3
    if call.dropped:
        print(f"dropped: {', '.join(call.dropped)}; the same command with --out={options.out} continues")
        return 3
    failed = [step.name for step in call.steps.values() if step.status == "failed"]
    print(f"{'FAILED: ' + ', '.join(failed) if failed else 'passed'}; written: {options.out}")
    return 1 if failed else 0


@dataclass
class Call:
    steps: dict[str, Step]
    tools: Tools
    only: list[str]
    is_planned: bool
    dropped: list[str]

    @staticmethod
    def of(options: argparse.Namespace, began: float) -> Call:
        steps = result_file.earlier(options.out)

        def save() -> None:
            result_file.write(options.out, [steps[name] for name in STEPS if name in steps])

        folder = options.out.with_suffix(".parts")
        programs = (options.roofbench, options.gpu_test, options.sanitizer, options.python)
        deadline = began + min(options.limit, options.budget) - GRACE
        tools = Tools(*programs, folder, save, deadline, options.ranks)
        return Call(steps, tools, options.only, options.budget < float("inf"), [])

    def run(self) -> str:
        """The reason why a usable GPU is missing; empty if there is one, and the steps ran."""
        if time.monotonic() >= self.tools.deadline:
            raise OutOfTimeError("")
        names = [name for name in STEPS if self.is_due(name)]
        # Before the search for a GPU, which they explain.
        if names and names[0] == "facts":
            self.one(names.pop(0), START_S)
        began = time.monotonic()
        if missing := find_gpu(self.tools.roofbench, self.tools.deadline):
            if "facts" in self.steps:
                self.steps["facts"].judge("failed", missing)
                self.tools.save()
            return missing
        self.tools.folder.mkdir(parents=True, exist_ok=True)
        self.all(names, time.monotonic() - began)
        return ""

    def is_due(self, name: str) -> bool:
        if self.only:
            return name in self.only
        # The facts of each call: another machine may continue.
        return name == "facts" or name not in self.steps or self.steps[name].status == "unfinished"

    def left(self) -> float:
        return self.tools.deadline - time.monotonic()

    def all(self, names: Sequence[str], start_s: float) -> None:
        if self.is_planned:
            print(f"a plan of {self.left():.0f} s, where a program starts in {start_s:.1f} s:")
            print("\n".join(lines(STEPS, self.steps, names, start_s, self.left())), flush=True)
        for name in names:
            row, left = STEPS[name], self.left()
            if self.is_planned and not fits(row, self.steps.get(name), start_s, left):
                cost = remaining(row, self.steps.get(name), start_s)
                self.steps.setdefault(name, Step(name)).reason = f"dropped: it takes some {cost:.0f} s, of {left:.0f} s"
                self.tools.save()
                print(f"{name}: {self.steps[name].reason}", flush=True)
                self.dropped.append(name)
                continue
            self.one(name, start_s)
        for name in [name for name in self.dropped if STEPS[name].resumes]:
            if self.left() > start_s + LEAST_S:
                self.one(name, start_s)
                self.dropped.remove(name)

    def one(self, name: str, start_s: float) -> None:
        row = STEPS[name]
        continues = name in self.steps and (self.steps[name].status == "unfinished" or name == "facts")
        if not continues:
            self.steps[name] = Step(name)
        step = self.steps[name]
        step.judge("unfinished", "")
        cost = remaining(row, step, start_s)
        step.expected_s = row.cost(start_s)
        # Without a plan, steps wait for each other only.
        self.tools.patience = 3 * cost + GRACE if self.is_planned else float("inf")
        print(f"{name} … (~{cost:.0f} s, worth {row.worth}: {row.gives})", flush=True)
        checked(row, self.tools, step)


def checked(row: Row, tools: Tools, step: Step) -> None:
    """Runs a step. Whatever goes wrong in it ends it alone."""
    began = time.monotonic()
    tools.save()
    try:
        row.check(tools, step)
        if step.status == "unfinished":
            step.status = "passed"
    except OutOfTimeError as error:
        step.output = str(error)[-OUTPUT_TAIL:]
        raise
    except Exception as error:
        step.judge("failed", f"{type(error).__name__}: {error}")
        step.output = traceback.format_exc()[-OUTPUT_TAIL:]
    finally:
        step.seconds += time.monotonic() - began
        tools.save()
    print(f"{step.name}: {step.status}{': ' + step.reason if step.reason else ''} ({step.seconds:.0f} s)", flush=True)


def end_in_order() -> None:
    """Python would end at once, and leave the program of a step running."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))


if __name__ == "__main__":
    end_in_order()
    sys.exit(main(sys.argv[1:]))
