# SPDX-License-Identifier: Apache-2.0
"""All checks that need a GPU, in one command and one result file.

Runs, in the order of their value, the quick suite, a bf16 product compared with PyTorch in the same minute, our kernels
compared with their machine code, the GPU tests, collectives over NCCL, published generations, training steps,
Inductor's packages, and compute-sanitizer over our own kernels. Requires only Python 3.10; a step whose tool is missing
(compute-sanitizer, PyTorch), or for which there are too few GPUs, is skipped with a reason.

Writes one JSON file with the figures and output of every step, and each figure within a second. If a call ends early,
by --limit or killed, the same command continues where the file ends, also on another machine of the same kind that has
nothing but the file and the programs.

Exit status: 0 all steps passed, 1 a step failed, 2 no GPU or no program, 3 out of time: call it again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernel_code import measured

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = "roofbench-gpu-check-1"
OUTPUT_TAIL = 4000  # characters of a step's output that the file keeps
SHARDS = 8  # of the GPU tests, each short enough for one call
GRACE = 30.0  # seconds for an orderly end
POLL = 1.0  # seconds between looks at the journal of a running suite
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
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
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
    status: str = "unfinished"  # or passed, failed, skipped
    reason: str = ""
    seconds: float = 0.0
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


class OutOfTimeError(Exception):
    """The call is out of time; the next one continues the step."""


def run(
    command: Sequence[str | Path],
    timeout: float,
    deadline: float = float("inf"),
    watch: Callable[[], None] = lambda: None,
    environment: Mapping[str, str] = os.environ,
) -> subprocess.CompletedProcess[str]:
    """Both streams in stdout. Calls `watch` from time to time, and at the end. Exit status 124 on time-out;
    OutOfTimeError at the deadline of the call.
    """
    until = min(time.monotonic() + timeout, deadline)
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    output = None
    while output is None and time.monotonic() < until:
        try:
            output, _ = process.communicate(timeout=max(0.0, min(POLL, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            watch()
    if output is not None:
        watch()
        return subprocess.CompletedProcess(process.args, process.returncode, output)
    output = end(process)
    watch()
    if deadline <= until:
        raise OutOfTimeError(output)
    return subprocess.CompletedProcess(process.args, 124, f"{output}\ntimed out after {timeout:.0f} s")


def end(process: subprocess.Popen[str]) -> str:
    """Interrupts a program so that it writes its results, then kills it."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=GRACE)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def finish(step: Step, done: subprocess.CompletedProcess[str]) -> None:
    step.output = done.stdout[-OUTPUT_TAIL:]
    if done.returncode != 0:
        step.judge("failed", f"exit status {done.returncode}")


def gpu_tests(tools: Tools, step: Step) -> None:
    if tools.gpu_test is None:
        step.judge("skipped", "gpu_test is missing: build with ROOFBENCH_TESTS=ON")
        return
    shards: dict[str, dict[str, int]] = step.figures.setdefault("shards", {})  # the results of each, counted
    report = tools.folder / "gpu_test.json"
    failure = ""
    for shard in map(str, range(SHARDS)):
        if shard in shards:
            continue
        report.unlink(missing_ok=True)
        command: list[str | Path] = [tools.gpu_test, f"--gtest_output=json:{report}"]
        environment = os.environ | {"GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": shard}
        done = run(command, 1500, tools.deadline, environment=environment)
        if done.returncode != 0:
            failure, step.output = f"exit status {done.returncode}", done.stdout[-OUTPUT_TAIL:]
        if not report.exists():
            failure = failure or "it wrote no report"
            continue
        counts: dict[str, int] = {}
        for test in [test for suite in json.loads(report.read_text())["testsuites"] for test in suite["testsuite"]]:
            result = "failed" if test.get("failures") else test["result"].lower()
            counts[result] = counts.get(result, 0) + 1
            step.figures |= {key: float(test[key]) for key in ("clock_over_kineto", "floor_us") if key in test}
        shards[shard] = counts
        tools.save()
    totals = {result: sum(shard.get(result, 0) for shard in shards.values()) for result in ("completed", "failed")}
    if not totals["completed"]:
        failure = failure or "no test ran"
    if failure or totals["failed"]:
        step.judge("failed", failure or f"{totals['failed']} test(s) failed")


def sanitizer(tool: str) -> Check:
    def check(tools: Tools, step: Step) -> None:
        if tools.sanitizer is None:
            step.judge("skipped", "compute-sanitizer is not on PATH (the CUDA toolkit contains it)")
            return
        if tools.gpu_test is None:
            step.judge("skipped", "gpu_test is missing")
            return
        # One process: starting LibTorch takes longer than the tests. Every tensor is an allocation of its own, so that
        # a read past its end is seen.
        command: list[str | Path] = [tools.sanitizer, "--tool", tool, "--error-exitcode", "9"]
        command += [tools.gpu_test, "--gtest_filter=KernelsTest*"]
        environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        finish(step, run(command, 1500, tools.deadline, environment=environment))

    return check


def iterations(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [case for case in results["benchmarks"] if case.get("run_type", "iteration") == "iteration"]


def suite(name: str, flags: Sequence[str]) -> Check:
    def check(tools: Tools, step: Step) -> None:
        out = tools.folder / "results.json"
        out.unlink(missing_ok=True)
        # The journal keeps other cases if a case breaks the device or the call ends; the result file keeps the journal.
        journal = tools.folder / f"{name}.jsonl"
        if not journal.exists() and "journal" in step.figures:
            journal.write_text("".join(json.dumps(line) + "\n" for line in step.figures["journal"]))

        def watch() -> None:
            lines = whole_lines(journal)
            if lines and lines != step.figures.get("journal"):
                step.figures["journal"] = lines
                tools.save()

        resumed = [f"--journal={journal}", "--resume"]
        command: list[str | Path] = [tools.roofbench, "--device=cuda", *flags, *resumed, f"--benchmark_out={out}"]
        finish(step, run(command, 7200, tools.deadline, watch))
        if not out.exists():
            step.judge("failed", step.reason or "it wrote no results")
            return
        results = json.loads(out.read_text())
        cases = iterations(results)
        step.figures = {
            "results": results,
            "graph_speedups": measured.graph_speedups(cases),
            "launch_bound": [case["name"] for case in cases if case.get("launch_bound") == 1],
        }
        journal.unlink(missing_ok=True)

    return check


def whole_lines(journal: Path) -> list[Any]:
    text = journal.read_text() if journal.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def kernels(tools: Tools, step: Step) -> None:
    suite("kernels", measured.FLAGS)(tools, step)
    if results := step.figures.get("results"):
        step.figures["kernels"] = measured.rows(results, iterations(results))


def collectives(tools: Tools, step: Step) -> None:
    chosen = f"^(({'|'.join(COLLECTIVES)})/impl:nccl/|train_step/impl:eager/.*/parallel:[^n])"
    suite("collectives", [f"--benchmark_filter={chosen}", f"--ranks={tools.ranks}", "--unverified"])(tools, step)
    if step.status == "failed":
        return
    cases = iterations(step.figures["results"])
    step.figures["shared"] = {
        case["name"]: case.get("communication_ms") for case in cases if "/parallel:" in case["name"]
    }
    step.figures["busbw"] = {case["name"]: case["busbw"] for case in cases if "busbw" in case}
    if not step.figures["busbw"]:
        reasons = list(filter(None, (case.get("error_message") or case.get("skip_message") for case in cases)))
        step.judge("skipped" if reasons else "failed", reasons[0] if reasons else "no case ran")


def product_against_torch(tools: Tools, step: Step) -> None:
    can_use_gpu = [tools.python, "-I", "-c", "import torch; assert torch.cuda.is_available()"]
    if run(can_use_gpu, 120, tools.deadline).returncode != 0:
        step.judge("skipped", f"{tools.python} has no PyTorch with access to the GPU (see --python)")
        return
    ours: list[float] = step.figures.setdefault("ours_s", [])
    theirs: list[float] = step.figures.setdefault("torch_s", [])
    # Alternating, so that a change of the clocks affects both.
    while len(ours) < 2:
        if len(theirs) == len(ours):
            done = run([tools.python, "-I", "-c", TORCH_PRODUCT], 120, tools.deadline)
            if done.returncode != 0:
                finish(step, done)
                return
            theirs.append(float(done.stdout.split()[-1]))
            tools.save()
        out = tools.folder / "results.json"
        flags = ["--device=cuda", f"--benchmark_filter={LARGE_PRODUCT}", "--axis=cache=warm", f"--benchmark_out={out}"]
        done = run([tools.roofbench, *flags], 300, tools.deadline)
        finish(step, done)
        if done.returncode != 0:
            return
        case = iterations(json.loads(out.read_text()))[0]
        ours.append(case["real_time"] * {"us": 1e-6, "ms": 1e-3}[case.get("time_unit", "ms")])
        tools.save()
    ratio = statistics.median(ours) / statistics.median(theirs)
    step.figures |= {"ratio": ratio, "tflops": 2 * 8192**3 / min(ours) / 1e12}
    if abs(ratio - 1) > AGREEMENT:
        step.judge("failed", f"our time is {ratio:.3f} of PyTorch's; expected 1 within {AGREEMENT:.0%}")


# Continues a step that an earlier call began. Its results so far are kept when the call ends.
Check = Callable[[Tools, Step], None]

# By value: a machine may be taken away at any time.
STEPS: dict[str, Check] = {
    "quick": suite("quick", ["--suite=quick", "--unverified"]),
    "product_against_torch": product_against_torch,
    "kernels": kernels,
    "gpu_tests": gpu_tests,
    "collectives": collectives,
    "generation": suite("generation", [f"--benchmark_filter={GENERATION}", "--max_time=2", "--unverified"]),
    "chosen": suite("chosen", [f"--benchmark_filter={CHOSEN}", "--unverified"]),
    "training": suite("training", [f"--benchmark_filter={TRAINING}", *TRAINING_FLAGS]),
    "compiled": suite("compiled", ["--benchmark_filter=/impl:compiled/", "--unverified"]),
    "memcheck": sanitizer("memcheck"),
    "racecheck": sanitizer("racecheck"),
}


def verified(steps: Mapping[str, Step]) -> list[str]:
    """Parts that ran here without a fault, as lib/device/unverified.cc names it: our own kernels if all of their checks
    passed, Inductor's packages if a case of them did, NCCL if all collectives did, and shared steps if all of them did.
    """
    names = set()
    status = {name: step.status for name, step in steps.items()}
    sanitized = {status.get("memcheck"), status.get("racecheck")} == {"passed"}
    if status.get("gpu_tests") == status.get("kernels") == "passed" and sanitized:
        rows = steps["kernels"].figures["kernels"]
        missed = {row["kernel"].split("<")[0] for row in rows if row["measured"] is None}
        names = {"Spin", *(row["kernel"].split("<")[0] for row in rows)} - missed  # every sample waits in Spin
    if status.get("compiled") == "passed":
        cases = iterations(steps["compiled"].figures["results"])
        names |= {"InductorPackage" for case in cases if not case.get("error_occurred")}
    if status.get("collectives") == "passed":
        ran = {name.partition("/")[0] for name in steps["collectives"].figures["busbw"]}
        names |= {"NcclGroup"} if ran == set(COLLECTIVES) else set()
        shared = steps["collectives"].figures.get("shared", {}).values()
        names |= {"SharedStep"} if shared and None not in shared else set()
    return sorted(names)


def accept(result: Path) -> int:
    """Moves what a result verified from the table of the sources to the list of the GPUs that ran it."""
    table = ROOT / "lib/device/unverified.cc"
    ran = ROOT / "tests/structure/verified_kernels.json"
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


def find_gpu(roofbench: Path, deadline: float) -> str:
    """The reason why a usable GPU is missing; empty if there is one."""
    smallest = ["--benchmark_filter=^harness_overhead/", "--benchmark_min_time=1x"]
    done = run([roofbench, "--device=cuda", *smallest], 300, deadline)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stdout.splitlines() if "--device=cuda" in line]
    return lines[-1] if lines else f"roofbench --device=cuda ended with status {done.returncode}:\n{done.stdout}"


def first_existing(paths: Sequence[Path]) -> Path | None:
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu_check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prefix", type=Path, help="a build folder or an installed tree, with bin/roofbench")
    parser.add_argument("--roofbench", type=Path, help="the program (bin/roofbench of the prefix)")
    parser.add_argument("--gpu_test", type=Path, help="the GPU tests (gpu_test of the prefix)")
    parser.add_argument("--sanitizer", default=shutil.which("compute-sanitizer"), help="compute-sanitizer")
    parser.add_argument("--python", default=None, help="a Python with PyTorch (.venv, then python3)")
    parser.add_argument("--ranks", type=int, default=2, help="GPUs that exchange data in the step collectives (2)")
    parser.add_argument("--only", default="", help=f"only these steps: {','.join(STEPS)}")
    parser.add_argument(
        "--out",
        type=Path,
        help="the result file (results/local/gpu_check-<UTC time>.json); an existing one is continued",
    )
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for this call")
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
        return accept(options.accept)
    if options.roofbench is None or not os.access(options.roofbench, os.X_OK):
        named = options.roofbench or "bin/roofbench"
        print(f"gpu_check: {named} is missing: build it, or name it with --prefix or --roofbench", file=sys.stderr)
        return 2
    deadline = began + options.limit - GRACE
    steps = earlier(options.out)
    try:
        if missing := find_gpu(options.roofbench, deadline):
            print(f"gpu_check: no GPU to check: {missing}", file=sys.stderr)
            return 2
        check_all(options, deadline, steps)
    except OutOfTimeError:
        print(f"out of time; the same command with --out={options.out} continues")
        return 3
    failed = [step.name for step in steps.values() if step.status == "failed"]
    print(f"{'FAILED: ' + ', '.join(failed) if failed else 'passed'}; written: {options.out}")
    return 1 if failed else 0


def check_all(options: argparse.Namespace, deadline: float, steps: dict[str, Step]) -> None:
    folder = options.out.with_suffix(".parts")
    folder.mkdir(parents=True, exist_ok=True)

    def save() -> None:
        write(options.out, [steps[name] for name in STEPS if name in steps])

    tools = Tools(
        options.roofbench, options.gpu_test, options.sanitizer, options.python, folder, save, deadline, options.ranks
    )
    for name, check in STEPS.items():
        if name not in (options.only or STEPS):
            continue
        is_known = name in steps and steps[name].status != "unfinished"
        if is_known and not options.only:
            continue
        if is_known or name not in steps:
            steps[name] = Step(name)
        checked(check, tools, steps[name])


def checked(check: Check, tools: Tools, step: Step) -> None:
    print(f"{step.name} …", flush=True)
    began = time.monotonic()
    tools.save()
    try:
        check(tools, step)
        if step.status == "unfinished":
            step.status = "passed"
    except OutOfTimeError as error:
        step.output = str(error)[-OUTPUT_TAIL:]
        raise
    finally:
        step.seconds += time.monotonic() - began
        tools.save()
    print(f"{step.name}: {step.status}{': ' + step.reason if step.reason else ''} ({step.seconds:.0f} s)", flush=True)


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
        "verified": verified({step.name: step for step in steps}),
        "steps": [asdict(step) for step in steps],
    }
    # Atomic; follows a link at `out`, and never one at the temporary name.
    target = Path(os.path.realpath(out))
    partial = target.with_name(f".{secrets.token_hex(8)}.part")
    with partial.open("x") as file:
        file.write(json.dumps(result) + "\n")
    partial.replace(target)


def device_of(steps: Sequence[Step]) -> str | None:
    """The device's name in the results of the suite."""
    for step in steps:
        began = step.figures.get("journal") or [{}]
        for context in (step.figures.get("results", {}).get("context", {}), began[0].get("context", {})):
            if "device" in context:
                return str(context["device"])
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
