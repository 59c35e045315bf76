"""One kernel, GELU of a million numbers in torch on one thread, by five timers, as the table of docs/python.md.

    python side_by_side.py [rounds]

Every round asks each timer, in an order that changes, so that what other programs do meets all of them. The figures are
shares of roofbench's warm median of the same round: the machine need not be idle.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import roofbench
import torch

torch.set_num_threads(1)  # several wait for each other where other programs run

Function = Callable[[torch.Tensor], torch.Tensor]
ELEMENTS = 1 << 20
CALLS = 100
WORK = roofbench.Work(flops=8 * ELEMENTS, bytes_read=4 * ELEMENTS, bytes_written=4 * ELEMENTS)


def honest() -> Function:
    return torch.nn.functional.gelu


def kept() -> Function:
    """Returns its first result again, whatever it is given."""
    results = []

    def function(x: torch.Tensor) -> torch.Tensor:
        if not results:
            results.append(torch.nn.functional.gelu(x))
        return results[0]

    return function


def slow_first() -> Function:
    """Takes half a second once, as something that compiles does."""
    calls = []

    def function(x: torch.Tensor) -> torch.Tensor:
        if not calls:
            time.sleep(0.5)
        calls.append(1)
        return torch.nn.functional.gelu(x)

    return function


KERNELS = {"as it is": honest, "keeps its result": kept, "first call 0.5 s": slow_first}


def by_clock(make: Callable[[], Function], x: torch.Tensor) -> float:
    function = make()
    begin = time.time()
    for _ in range(CALLS):
        function(x)
    return (time.time() - begin) / CALLS


def by_torch(make: Callable[[], Function], x: torch.Tensor) -> float:
    from torch.utils.benchmark import Timer

    timer = Timer("function(x)", globals={"function": make(), "x": x}, num_threads=torch.get_num_threads())
    return float(timer.blocked_autorange(min_run_time=0.2).median)


def by_triton(make: Callable[[], Function], x: torch.Tensor) -> float:
    from triton.testing import do_bench

    function = make()
    return float(do_bench(lambda: function(x))) / 1e3


def by_pytest(make: Callable[[], Function], x: torch.Tensor) -> float:
    text = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import torch, side_by_side

def test_gelu(benchmark):
    benchmark(side_by_side.{make.__name__}(), torch.randn(side_by_side.ELEMENTS))
"""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_gelu.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", "--benchmark-json=out.json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed")
        return float(json.loads((Path(folder) / "out.json").read_text())["benchmarks"][0]["stats"]["median"])


def by_roofbench(make: Callable[[], Function], x: torch.Tensor, cache: str = "warm") -> float:
    found = roofbench.measure(make(), x, work=WORK, reference=torch.nn.functional.gelu, cache=cache, max_time=0.2)
    if not found.ok:
        raise RuntimeError(found.failure)
    return found.median


def by_roofbench_cold(make: Callable[[], Function], x: torch.Tensor) -> float:
    return by_roofbench(make, x, "cold")


TIMERS = {
    "`time.time()`, mean of 100 calls": by_clock,
    "`torch.utils.benchmark`, median": by_torch,
    "`triton.testing.do_bench`": by_triton,
    "pytest-benchmark, median": by_pytest,
    '`roofbench.measure(cache="warm")`': by_roofbench,
    "`roofbench.measure` (cold)": by_roofbench_cold,
}


def main(rounds: int) -> None:
    figures: dict[tuple[str, str], list[float]] = {}
    refused: dict[tuple[str, str], str] = {}
    for _ in range(rounds):
        x = torch.randn(ELEMENTS)
        warm = by_roofbench(honest, x)
        cells = [(timer, kernel) for timer in TIMERS for kernel in KERNELS]
        for timer, kernel in random.sample(cells, len(cells)):
            if (timer, kernel) in refused:
                continue
            try:
                figures.setdefault((timer, kernel), []).append(TIMERS[timer](KERNELS[kernel], x) / warm)
            except Exception as error:
                refused[timer, kernel] = f"fails: {str(error).splitlines()[0]:.60}"
    print(f"| timer | {' | '.join(KERNELS)} |\n| --- |{' ---: |' * len(KERNELS)}")
    for timer in TIMERS:
        shown = []
        for kernel in KERNELS:
            one = figures.get((timer, kernel), [])
            text = f"{statistics.median(one):.3g} ({min(one):.3g} to {max(one):.3g})" if one else ""
            shown.append(refused.get((timer, kernel), text))
        print(f"| {timer} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
