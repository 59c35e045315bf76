# SPDX-License-Identifier: Apache-2.0
"""Runs of the program: suites of cases, our kernels, collectives, and a product compared with PyTorch's."""

from __future__ import annotations

import contextlib
import json
import os
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_code import measured

from gpu_checks import processes
from gpu_checks.step import Check, Step, Tools, finish

PATIENCE = 7200.0  # seconds for a suite
AGREEMENT = 0.02  # of our time and PyTorch's for a product
# Launch-bound cases, their graphs, and one that fills the device, also with operands that draw less power.
CHOSEN = (
    r"^(matmul/impl:(eager|graph)/dtype:bf16/(data:[a-z]+/)?n:(256|512|1024|4096|8192)"
    r"|mlp/(impl:graph/)?dtype:bf16_autocast/steps:2/|copy|read)"
)
# Training steps of the published sizes, by single launches and as graphs.
TRAINING = r"^train_step/impl:(eager|graph)/size:[a-z]+/context:(128|512|1024)/dtype:(fp32|bf16_autocast)/[^:]*$"
TRAINING_FLAGS = ["--axis=train_step.size=small,medium,large,xl", "--max_step_time=5", "--max_time=1"]
# The published generations, and a token at depths of the cache.
GENERATION = r"^(published/|decode/impl:(eager|graph)/model:llama3_1b/precision:(bf16|int8)/)"
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
LARGE_PRODUCT = r"^matmul/impl:eager/dtype:bf16/n:8192/"

# A GPU of 700 W holds a high clock for tenths of a second, and then its power limit: a burst is 10 % faster than what
# it sustains. Both sides therefore work for LOAD_S seconds, of which the last half counts.
LOAD_S = 2.0
# Multiplies n x n bf16 matrices for some seconds, with an event after each, and at most two chunks enqueued. Prints the
# median seconds of a product in the last half, and how many that has.
TORCH_PRODUCT = """
import json, statistics, sys, torch
n, chunk, load = 8192, 50, float(sys.argv[1])
torch.manual_seed(0)
a, b = (torch.randn(n, n, dtype=torch.bfloat16, device="cuda") for _ in range(2))
c = torch.empty(n, n, dtype=torch.bfloat16, device="cuda")
for _ in range(10):
    torch.mm(a, b, out=c)
def mark():
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
marks = [mark()]
while len(marks) <= 2 * chunk or marks[0].elapsed_time(marks[-chunk - 1]) < 1e3 * load:
    for _ in range(chunk):
        torch.mm(a, b, out=c)
        marks.append(mark())
    marks[-chunk - 1].synchronize()
torch.cuda.synchronize()
times = [x.elapsed_time(y) for x, y in zip(marks, marks[1:])]
total, passed, last = sum(times), 0.0, []
for time in times:
    passed += time
    if 2 * passed > total:
        last.append(time / 1e3)
print(json.dumps({"median_s": statistics.median(last), "products": len(last)}))
"""
CLOCKS = "clocks.sm,power.draw,temperature.gpu"


def iterations(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [case for case in results["benchmarks"] if case.get("run_type", "iteration") == "iteration"]


def so_far(figures: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The context and cases of a suite, also of one that has not ended: its journal's, in the form of results."""
    if results := figures.get("results"):
        return results.get("context", {}), iterations(results)
    lines: list[dict[str, Any]] = figures.get("journal", [])
    context: dict[str, Any] = next((line["context"] for line in lines if "context" in line), {})
    cases = [
        {
            "name": line["name"],
            "error_occurred": line.get("verdict", "measured") != "measured",
            **line.get("counters", {}),
        }
        for line in lines
        if "name" in line
    ]
    return context, cases


def suite(name: str, flags: Sequence[str]) -> Check:
    def check(tools: Tools, step: Step) -> None:
        out = tools.folder / "results.json"
        out.unlink(missing_ok=True)
        # The journal keeps other cases if a case breaks the device or the call ends; the result file keeps the journal.
        journal = tools.folder / f"{name}.jsonl"
        if not journal.exists() and "journal" in step.figures:
            journal.write_text("".join(json.dumps(line) + "\n" for line in step.figures["journal"]))

        def watch(_output: str) -> None:
            lines = whole_lines(journal)
            if lines and lines != step.figures.get("journal"):
                step.figures["journal"] = lines
                tools.save()

        resumed = [f"--journal={journal}", "--resume"]
        command: list[str | Path] = [tools.roofbench, "--device=cuda", *flags, *resumed, f"--benchmark_out={out}"]
        finish(step, tools.run(command, PATIENCE, watch))
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
    text = journal.read_text(errors="replace") if journal.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def kernels(tools: Tools, step: Step) -> None:
    suite("kernels", measured.FLAGS)(tools, step)
    if results := step.figures.get("results"):
        step.figures["kernels"] = measured.rows(results, iterations(results))


def gpus(tools: Tools) -> int | None:
    """How many programs see; None if that is not known without starting one."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return len(list(filter(None, visible.split(","))))
    try:
        done = tools.run(["nvidia-smi", "-L"], 30)
    except OSError:
        return None
    return len(re.findall(r"^GPU ", done.stdout, re.MULTILINE)) if done.returncode == 0 else None


def collectives(tools: Tools, step: Step) -> None:
    count = gpus(tools)
    if count is not None and count < tools.ranks:
        step.judge(
            "skipped", f"needs {tools.ranks} GPUs, one for each rank, and there {'is' if count == 1 else 'are'} {count}"
        )
        return
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
    can_use_gpu: list[str | Path] = [tools.python, "-I", "-c", "import torch; assert torch.cuda.is_available()"]
    if tools.run(can_use_gpu, 120).returncode != 0:
        step.judge("skipped", f"{tools.python} has no PyTorch with access to the GPU (see --python)")
        return
    theirs: list[dict[str, Any]] = step.figures.setdefault("torch", [])
    ours: list[dict[str, Any]] = step.figures.setdefault("ours", [])
    # Alternating, so that a change of the clocks affects both.
    while len(ours) < 2 and step.status != "failed":
        side, measure = (theirs, _torch_product) if len(theirs) == len(ours) else (ours, _our_product)
        if found := _with_clocks(measure, tools, step):
            side.append(found)
            tools.save()
    if step.status == "failed":
        return
    ratio = statistics.median(_seconds(ours)) / statistics.median(_seconds(theirs))
    step.figures |= {"ratio": ratio, "tflops": 2 * 8192**3 / min(_seconds(ours)) / 1e12}
    if abs(ratio - 1) > AGREEMENT:
        step.judge("failed", f"our time is {ratio:.3f} of PyTorch's; expected 1 within {AGREEMENT:.0%}")


def _seconds(side: Sequence[Mapping[str, Any]]) -> list[float]:
    return [float(run["median_s"]) for run in side]


def _torch_product(tools: Tools, step: Step) -> dict[str, Any] | None:
    done = tools.run([tools.python, "-I", "-c", TORCH_PRODUCT, str(LOAD_S)], 120)
    finish(step, done)
    if done.returncode != 0:
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _our_product(tools: Tools, step: Step) -> dict[str, Any] | None:
    out = tools.folder / "results.json"
    out.unlink(missing_ok=True)
    # As many products as PyTorch's last half has, after a warm-up of the first half, without probes between them.
    products = step.figures["torch"][-1]["products"]
    load = [f"--benchmark_min_warmup_time={LOAD_S / 2:g}", f"--benchmark_min_time={products}x", "--roofs=off"]
    cases = [f"--benchmark_filter={LARGE_PRODUCT}", "--axis=cache=warm"]
    done = tools.run([tools.roofbench, "--device=cuda", *cases, *load, f"--benchmark_out={out}"], 300)
    finish(step, done)
    if done.returncode != 0:
        return None
    ran = iterations(json.loads(out.read_text()))
    if not ran or ran[0].get("error_occurred") or not ran[0].get("real_time"):
        row = ran[0] if ran else {}
        reason = row.get("error_message") or row.get("skip_message") or "no case ran"
        step.judge("failed", f"our product has no time: {reason}")
        return None
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[ran[0].get("time_unit", "ms")]
    kept: dict[str, Any] = {
        key: ran[0][key] for key in ("clock_mhz", "power_w", "power_capped", "throttled", "samples") if key in ran[0]
    }
    return {"median_s": ran[0]["real_time"] * unit} | kept


def _with_clocks(
    measure: Callable[[Tools, Step], dict[str, Any] | None], tools: Tools, step: Step
) -> dict[str, Any] | None:
    """Adds the medians of the driver's readings under load: clock (MHz), power (W) and temperature (Celsius)."""
    lines: list[str] = []
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
    with contextlib.ExitStack() as stack:
        command = ["nvidia-smi", f"--query-gpu={CLOCKS}", "--format=csv,noheader,nounits", "-lms", "100", "-i", gpu]
        try:
            stack.enter_context(processes.meanwhile(command, lines))
        except OSError as error:
            lines.append(str(error))
        found = measure(tools, step)
    return found and {**found, "clocks": _under_load(lines)}


def _under_load(lines: Sequence[str]) -> dict[str, Any]:
    """Of the readings whose power is near the highest: the others are of the programs' start."""
    readings = list(_numbers(lines))
    if not readings:
        return {"fault": "; ".join(lines[:2]) or "nvidia-smi printed nothing"}
    most = max(power for _, power, _ in readings)
    loaded = [reading for reading in readings if reading[1] > 0.8 * most]
    clock, power, temperature = (statistics.median(column) for column in zip(*loaded, strict=True))
    return {"clock_mhz": clock, "power_w": power, "temperature_c": temperature, "readings": len(loaded)}


def _numbers(lines: Sequence[str]) -> Iterator[tuple[float, float, float]]:
    for line in lines:
        with contextlib.suppress(ValueError):
            clock, power, temperature = (float(word) for word in line.split(","))
            yield clock, power, temperature
