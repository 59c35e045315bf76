# SPDX-License-Identifier: Apache-2.0
"""All checks that need a GPU, in one command and one result file.

Runs the GPU tests, compute-sanitizer over our own kernels, the suite on the GPU, our kernels compared with their
machine code, training steps and published generations, Inductor's packages, and a bf16 product compared with PyTorch in
the same minute. Writes one JSON file with the figures and output of every step. Requires only Python 3.10; a step whose
tool is missing (compute-sanitizer, PyTorch) is skipped with a reason. --limit ends a call in time on a machine that is
available for minutes only, and the same command continues: the result file has the finished steps, a journal next to
it the cases of an unfinished one.

Exit status: 0 all steps passed, 1 a step failed, 2 there is no GPU or no program, 3 out of time: call it again.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernel_code import measured

SCHEMA = "roofbench-gpu-check-1"
OUTPUT_TAIL = 4000  # characters of a step's output that the file keeps
SHARDS = 8  # of the GPU tests, each short enough for one call
GRACE = 30.0  # seconds for an orderly end
AGREEMENT = 0.02  # of our time and PyTorch's for a product
# Launch-bound cases, their graphs, and one that fills the device.
CHOSEN = (
    r"^(matmul/impl:(eager|graph)/dtype:bf16/n:(256|512|1024|4096|8192)"
    r"|mlp/(impl:graph/)?dtype:bf16_autocast/steps:2/|copy|read)"
)
# Training steps of the published sizes, by single launches and as graphs.
TRAINING = r"^train_step/impl:(eager|graph)/size:[a-z]+/context:(128|512|1024)/dtype:(fp32|bf16_autocast)/[^:]*$"
TRAINING_FLAGS = ["--axis=train_step.size=small,medium,large,xl", "--max_step_time=5", "--max_time=1"]
# The published generations, and a token at depths of the cache.
GENERATION = r"^(published/|decode/impl:(eager|graph)/model:llama3_1b/precision:(bf16|int8)/)"
LARGE_PRODUCT = r"^matmul/impl:eager/dtype:bf16/n:8192/"

# Prints the median seconds of one product of n x n bf16 matrices, by CUDA events around each.
TORCH_PRODUCT = """
import statistics, torch
n, steps = 8192, 50
torch.manual_seed(0)
a, b = (torch.randn(n, n, dtype=torch.bfloat16, device="cuda") for _ in range(2))
c = torch.empty(n, n, dtype=torch.bfloat16, device="cuda")
for _ in range(10):
    torch.mm(a, b, out=c)
marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
marks[0].record()
for mark in marks[1:]:
    torch.mm(a, b, out=c)
    mark.record()
torch.cuda.synchronize()
print(statistics.median(x.elapsed_time(y) for x, y in zip(marks, marks[1:])) / 1e3)
"""


@dataclass
class Step:
    name: str
    status: str = "passed"  # passed, failed, skipped, unfinished
    reason: str = ""
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    output: str = ""


@dataclass
class Tools:
    roofbench: Path
    gpu_test: Path | None
    sanitizer: str | None
    python: str
    folder: Path  # next to the result file: journals, results and reports of the steps
    deadline: float = float("inf")  # of time.monotonic()


class OutOfTimeError(Exception):
    """The call is out of time; the next one continues the step."""


def run(
    command: Sequence[str | Path], timeout: float, deadline: float = float("inf"), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Both streams in stdout. Exit status 124 on time-out; OutOfTimeError at the deadline of the call."""
    left = deadline - time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        output, _ = process.communicate(timeout=max(0.0, min(timeout, left)))
    except subprocess.TimeoutExpired:
        output = end(process)
        if left <= timeout:
            raise OutOfTimeError(output) from None
        return subprocess.CompletedProcess(process.args, 124, f"{output}\ntimed out after {timeout:.0f} s")
    return subprocess.CompletedProcess(process.args, process.returncode, output)


def end(process: subprocess.Popen[str]) -> str:
    """Interrupts a program so that it writes its results, then kills it."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=GRACE)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def finish(step: Step, done: subprocess.CompletedProcess[str]) -> Step:
    step.output = done.stdout[-OUTPUT_TAIL:]
    if done.returncode != 0:
        step.status, step.reason = "failed", f"exit status {done.returncode}"
    return step


def skipped(step: Step, reason: str) -> Step:
    step.status, step.reason = "skipped", reason
    return step


def shard_environment(shard: int) -> dict[str, str]:
    return {"GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(shard)}


def gpu_tests(tools: Tools) -> Step:
    step = Step("gpu_tests")
    if tools.gpu_test is None:
        return skipped(step, "gpu_test is missing: build with ROOFBENCH_TESTS=ON")
    counts: dict[str, int] = {}
    for shard in range(SHARDS):
        report = tools.folder / f"gpu_test-{shard}.json"
        if not report.exists():
            partial = report.with_suffix(".part")
            command: list[str | Path] = [tools.gpu_test, f"--gtest_output=json:{partial}"]
            done = run(command, 1500, tools.deadline, **shard_environment(shard))
            if done.returncode != 0:
                finish(step, done)
            if not partial.exists():
                step.status, step.reason = "failed", step.reason or "it wrote no report"
                continue
            partial.replace(report)
        for suite in json.loads(report.read_text()).get("testsuites", []):
            for test in suite["testsuite"]:
                result = "failed" if test.get("failures") else test["result"].lower()
                counts[result] = counts.get(result, 0) + 1
                step.figures |= {key: float(test[key]) for key in ("clock_over_kineto", "floor_us") if key in test}
    step.figures["tests"] = counts
    if counts.get("failed"):
        step.status, step.reason = "failed", step.reason or f"{counts['failed']} test(s) failed"
    if not counts.get("completed"):
        step.status, step.reason = "failed", "no test ran"
    return step


def sanitizer(tool: str) -> Callable[[Tools], Step]:
    def check(tools: Tools) -> Step:
        step = Step(tool)
        if tools.sanitizer is None:
            return skipped(step, "compute-sanitizer is not on PATH (the CUDA toolkit contains it)")
        if tools.gpu_test is None:
            return skipped(step, "gpu_test is missing")
        command: list[str | Path] = [tools.sanitizer, "--tool", tool, "--error-exitcode", "9", tools.gpu_test]
        for shard in range(SHARDS):
            passed = tools.folder / f"{tool}-{shard}.passed"
            if passed.exists():
                continue
            done = run([*command, "--gtest_filter=KernelsTest*"], 1500, tools.deadline, **shard_environment(shard))
            if done.returncode != 0:
                return finish(step, done)
            passed.write_text(done.stdout[-OUTPUT_TAIL:])
        return step

    return check


def iterations(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [case for case in results["benchmarks"] if case.get("run_type", "iteration") == "iteration"]


def suite(name: str, flags: Sequence[str]) -> Callable[[Tools], Step]:
    def check(tools: Tools) -> Step:
        step = Step(name)
        out = tools.folder / f"{name}.json"
        out.unlink(missing_ok=True)
        # The journal keeps other cases if a case breaks the device or the call ends.
        journal = [f"--journal={tools.folder / name}.jsonl", "--resume"]
        command: list[str | Path] = [tools.roofbench, "--device=cuda", *flags, *journal, f"--benchmark_out={out}"]
        finish(step, run(command, 7200, tools.deadline))
        if not out.exists():
            step.status, step.reason = "failed", step.reason or "it wrote no results"
            return step
        results = json.loads(out.read_text())
        cases = iterations(results)
        step.figures["results"] = results
        step.figures["graph_speedups"] = measured.graph_speedups(cases)
        step.figures["launch_bound"] = [case["name"] for case in cases if case.get("launch_bound") == 1]
        return step

    return check


def kernels(tools: Tools) -> Step:
    step = suite("kernels", measured.FLAGS)(tools)
    if results := step.figures.get("results"):
        step.figures["kernels"] = measured.rows(results, iterations(results))
    return step


def product_against_torch(tools: Tools) -> Step:
    step = Step("product_against_torch")
    if run([tools.python, "-I", "-c", "import torch; assert torch.cuda.is_available()"], 120).returncode != 0:
        return skipped(step, f"{tools.python} has no PyTorch with access to the GPU (see --python)")
    ours, theirs = [], []
    # Alternating, so that a change of the clocks affects both.
    for turn in range(2):
        done = run([tools.python, "-I", "-c", TORCH_PRODUCT], 120, tools.deadline)
        if done.returncode != 0:
            return finish(step, done)
        theirs.append(float(done.stdout.split()[-1]))
        out = tools.folder / f"product{turn}.json"
        flags = ["--device=cuda", f"--benchmark_filter={LARGE_PRODUCT}", "--axis=cache=warm", f"--benchmark_out={out}"]
        done = run([tools.roofbench, *flags], 300, tools.deadline)
        finish(step, done)
        if done.returncode != 0:
            return step
        case = iterations(json.loads(out.read_text()))[0]
        ours.append(case["real_time"] * {"us": 1e-6, "ms": 1e-3}[case.get("time_unit", "ms")])
    ratio = statistics.median(ours) / statistics.median(theirs)
    step.figures |= {"ours_s": ours, "torch_s": theirs, "ratio": ratio, "tflops": 2 * 8192**3 / min(ours) / 1e12}
    if abs(ratio - 1) > AGREEMENT:
        step.status, step.reason = "failed", f"our time is {ratio:.3f} of PyTorch's; expected 1 within {AGREEMENT:.0%}"
    return step


STEPS: dict[str, Callable[[Tools], Step]] = {
    "gpu_tests": gpu_tests,
    "memcheck": sanitizer("memcheck"),
    "racecheck": sanitizer("racecheck"),
    "quick": suite("quick", ["--suite=quick", "--unverified"]),
    "kernels": kernels,
    "chosen": suite("chosen", [f"--benchmark_filter={CHOSEN}", "--unverified"]),
    "training": suite("training", [f"--benchmark_filter={TRAINING}", *TRAINING_FLAGS]),
    "generation": suite("generation", [f"--benchmark_filter={GENERATION}", "--max_time=2", "--unverified"]),
    "compiled": suite("compiled", ["--benchmark_filter=/impl:compiled/", "--unverified"]),
    "product_against_torch": product_against_torch,
}


def find_gpu(roofbench: Path) -> str:
    """The reason why a usable GPU is missing; empty if there is one."""
    done = run([roofbench, "--device=cuda", "--benchmark_filter=^harness_overhead/", "--benchmark_min_time=1x"], 300)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stdout.splitlines() if "--device=cuda" in line]
    return lines[-1] if lines else f"roofbench --device=cuda ended with status {done.returncode}:\n{done.stdout}"


def first_existing(paths: Sequence[Path]) -> Path | None:
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(
        prog="gpu_check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prefix", type=Path, help="a build folder or an installed tree, with bin/roofbench")
    parser.add_argument("--roofbench", type=Path, help="the program (bin/roofbench of the prefix)")
    parser.add_argument("--gpu_test", type=Path, help="the GPU tests (gpu_test of the prefix)")
    parser.add_argument("--sanitizer", default=shutil.which("compute-sanitizer"), help="compute-sanitizer")
    parser.add_argument("--python", default=None, help="a Python with PyTorch (.venv, then python3)")
    parser.add_argument("--only", default="", help=f"only these steps: {','.join(STEPS)}")
    parser.add_argument(
        "--out",
        type=Path,
        help="the result file (results/local/gpu_check-<UTC time>.json); an existing one is continued",
    )
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for this call")
    found = parser.parse_args(arguments)
    prefixes = [found.prefix] if found.prefix else [root, root / "build/release", root.parent]
    found.roofbench = found.roofbench or first_existing([prefix / "bin/roofbench" for prefix in prefixes])
    if found.gpu_test is None and found.roofbench is not None:
        programs = found.roofbench.parent
        found.gpu_test = first_existing([programs / "gpu_test", programs.parent / "libexec/roofbench/gpu_test"])
    venv = first_existing([root / ".venv/bin/python"])
    found.python = found.python or (str(venv) if venv else sys.executable)
    found.only = [name for name in found.only.split(",") if name]
    unknown = sorted(set(found.only) - set(STEPS))
    if unknown:
        parser.error(f"--only={','.join(unknown)}: unknown step; there are {', '.join(STEPS)}")
    if found.out is None:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        found.out = root / "results/local" / f"gpu_check-{stamp}.json"
    return found


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    if options.roofbench is None or not os.access(options.roofbench, os.X_OK):
        named = options.roofbench or "bin/roofbench"
        print(f"gpu_check: {named} is missing: build it, or name it with --prefix or --roofbench", file=sys.stderr)
        return 2
    if missing := find_gpu(options.roofbench):
        print(f"gpu_check: no GPU to check: {missing}", file=sys.stderr)
        return 2
    steps = earlier(options.out)
    folder = options.out.with_suffix(".parts")
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.limit - GRACE
    tools = Tools(options.roofbench, options.gpu_test, options.sanitizer, options.python, folder, deadline)
    for name, check in STEPS.items():
        known = steps.get(name)
        if name not in (options.only or STEPS):
            continue
        if known is not None and known.status != "unfinished" and not options.only:
            continue
        steps[name] = timed(name, check, tools)
        # Keep the results if the next step breaks.
        write(options.out, [steps[one] for one in STEPS if one in steps])
        if steps[name].status == "unfinished":
            print(f"out of time; the same command with --out={options.out} continues")
            return 3
    failed = [step.name for step in steps.values() if step.status == "failed"]
    print(f"{'FAILED: ' + ', '.join(failed) if failed else 'passed'}; written: {options.out}")
    return 1 if failed else 0


def timed(name: str, check: Callable[[Tools], Step], tools: Tools) -> Step:
    print(f"{name} …", flush=True)
    began = time.monotonic()
    try:
        step = check(tools)
    except OutOfTimeError as error:
        step = Step(name, "unfinished", "the call was out of time", output=str(error)[-OUTPUT_TAIL:])
    step.seconds = time.monotonic() - began
    print(f"{name}: {step.status}{': ' + step.reason if step.reason else ''} ({step.seconds:.0f} s)", flush=True)
    return step


def earlier(out: Path) -> dict[str, Step]:
    """The steps of earlier calls, by name."""
    if not out.exists():
        return {}
    result = json.loads(out.read_text())
    if result.get("schema") != SCHEMA:
        print(f"gpu_check: {out} is not a result of gpu_check: name another file with --out", file=sys.stderr)
        raise SystemExit(2)
    return {step["name"]: Step(**step) for step in result["steps"]}


def write(out: Path, steps: Sequence[Step]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "schema": SCHEMA,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **{which: [step.name for step in steps if step.status == which] for which in ("failed", "unfinished")},
        "device": device_of(steps),
        "steps": [asdict(step) for step in steps],
    }
    # Atomic; follows a link at `out`, and never one at the temporary name.
    target = Path(os.path.realpath(out))
    partial = target.with_name(f".{secrets.token_hex(8)}.part")
    with partial.open("x") as file:
        file.write(json.dumps(result, indent=1) + "\n")
    partial.replace(target)


def device_of(steps: Sequence[Step]) -> str | None:
    """As named by the suite's results."""
    for step in steps:
        context = step.figures.get("results", {}).get("context", {})
        if "device" in context:
            return str(context["device"])
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
