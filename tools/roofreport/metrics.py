"""The table of metrics: what each counter's unit is, which way is better, and which change is worth a word."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from roofreport.result import Case


class Better(Enum):
    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True)
class Metric:
    name: str  # "<ref>" stands for the prefix of --reference, "<phase>" for the name of a phase
    unit: str
    better: Better
    practical: float  # a smaller relative change means nothing in practice
    noisy: bool = True  # follows the clock; False: the same work gives the same figure

    def worse(self, change: float) -> bool:
        """Whether a change in this direction, for a metric that has one, is for the worse."""
        return (change > 0) == (self.better is Better.LOWER)


TIME = Metric("time", "s", Better.LOWER, 0.01)

# The counters, in the order of roofbench --explain_counters.
COUNTERS = (
    Metric("FLOP/s", "FLOP/s", Better.HIGHER, 0.01),
    Metric("bytes/s", "B/s", Better.HIGHER, 0.01),
    Metric("flop_util", "fraction", Better.HIGHER, 0.01),
    Metric("mem_util", "fraction", Better.HIGHER, 0.01),
    Metric("<ref>_flop_util", "fraction", Better.HIGHER, 0.01),
    Metric("<ref>_mem_util", "fraction", Better.HIGHER, 0.01),
    Metric("roof", "fraction", Better.HIGHER, 0.02),
    Metric("samples", "count", Better.NEITHER, 0.0),
    Metric("mean_ms", "ms", Better.LOWER, 0.02),
    Metric("stddev_ms", "ms", Better.LOWER, 0.5),
    Metric("p95_ms", "ms", Better.LOWER, 0.05),
    Metric("min_ms", "ms", Better.LOWER, 0.02),
    Metric("ci", "fraction", Better.LOWER, 0.5),
    Metric("first_step_ms", "ms", Better.LOWER, 0.2),
    Metric("peak_mem", "B", Better.LOWER, 0.005, noisy=False),
    Metric("predicted_mem", "B", Better.NEITHER, 0.0, noisy=False),
    Metric("process_mem", "B", Better.LOWER, 0.02),
    Metric("predicted_process_mem", "B", Better.NEITHER, 0.0),
    Metric("<phase>_ms", "ms", Better.LOWER, 0.01),
    Metric("<phase>_roof", "fraction", Better.HIGHER, 0.02),
    Metric("parameters", "count", Better.NEITHER, 0.0, noisy=False),
    Metric("mfu", "fraction", Better.HIGHER, 0.01),
    Metric("mfu_measured", "fraction", Better.HIGHER, 0.02),
    Metric("<component>_params", "count", Better.NEITHER, 0.0, noisy=False),
    Metric("<part>_mem", "B", Better.LOWER, 0.005, noisy=False),
    Metric("predicted_<part>_mem", "B", Better.NEITHER, 0.0, noisy=False),
    Metric("ttft_ms", "ms", Better.LOWER, 0.02),
    Metric("itl_ms", "ms", Better.LOWER, 0.02),
    Metric("itl_p95_ms", "ms", Better.LOWER, 0.05),
    Metric("itl_p99_ms", "ms", Better.LOWER, 0.1),
    Metric("tokens/s", "tokens/s", Better.HIGHER, 0.02),
    Metric("prefill_tokens/s", "tokens/s", Better.HIGHER, 0.02),
    Metric("target_tokens/s", "tokens/s", Better.NEITHER, 0.0, noisy=False),
    Metric("mbu", "fraction", Better.HIGHER, 0.02),
    Metric("<ref>_mbu", "fraction", Better.HIGHER, 0.02),
    Metric("mbu_measured", "fraction", Better.HIGHER, 0.02),
    Metric("model_bytes", "B", Better.LOWER, 0.001, noisy=False),
    Metric("load_ms", "ms", Better.LOWER, 0.2),
    Metric("first_generation_ms", "ms", Better.LOWER, 0.2),
    Metric("overhead_ns", "ns", Better.LOWER, 0.1),
    Metric("launch_bound", "0 or 1", Better.LOWER, 0.0, noisy=False),
    Metric("throttled", "0 or 1", Better.LOWER, 0.0, noisy=False),
    Metric("power_capped", "0 or 1", Better.NEITHER, 0.0, noisy=False),
    Metric("clock_mhz", "MHz", Better.NEITHER, 0.0),
    Metric("power_w", "W", Better.NEITHER, 0.0),
    Metric("noisy", "0 or 1", Better.LOWER, 0.0, noisy=False),
)

_BY_NAME = {metric.name: metric for metric in (TIME, *COUNTERS)}
# From the special to the general: "a100_flop_util" is no phase.
_PATTERNS = (
    ("", "_flop_util", "<ref>_flop_util"),
    ("", "_mem_util", "<ref>_mem_util"),
    ("", "_mbu", "<ref>_mbu"),
    ("", "_ms", "<phase>_ms"),
    ("", "_roof", "<phase>_roof"),
    ("", "_params", "<component>_params"),
    ("predicted_", "_mem", "predicted_<part>_mem"),
    ("", "_mem", "<part>_mem"),
)


def find(name: str) -> Metric | None:
    """The row of a counter, or of "time"; None for a counter that the table does not know."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    for prefix, suffix, pattern in _PATTERNS:
        if name.startswith(prefix) and name.endswith(suffix) and len(name) > len(prefix) + len(suffix):
            return _BY_NAME[pattern]
    return None


def value(case: Case, name: str) -> float | None:
    """Of "time" (seconds) or of a counter; None if the case has none."""
    return case.seconds if name == TIME.name else case.counters.get(name)
