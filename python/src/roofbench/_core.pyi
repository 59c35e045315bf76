# SPDX-License-Identifier: Apache-2.0
"""The C++ half: the sampler, roofs, work formulas, comparison and counters of the roofbench program.

Dtypes are the program's names: "fp32", "tf32", "bf16", "fp16", "int8", "fp8". Times are in seconds, rates per second.
A bad argument raises ValueError with what is valid.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

__version__: str
git_revision: str
DTYPES: tuple[str, ...]

# What the step moves and computes (lib/workload).

class Cost:
    """The exact work of one step. Costs add up; `flops` is by dtype of the multiplier."""

    def __init__(
        self,
        flops: Mapping[str, float] = ...,
        *,
        bytes_read: float = 0,
        bytes_written: float = 0,
        bytes_updated: float = 0,
        resident_bytes: float | None = None,
    ) -> None:
        """`bytes_updated` are changed in place: each is read once and written once.

        `resident_bytes`, by default all bytes, is the memory alive at the peak of a step; warm work is compared with
        the cache that holds it.
        """

    @property
    def flops(self) -> dict[str, float]:
        """By dtype, without those at 0."""
    @property
    def total_flops(self) -> float: ...
    @property
    def bytes(self) -> float:
        """Read + written + 2 x updated."""
    @property
    def bytes_read(self) -> float: ...
    @property
    def bytes_written(self) -> float: ...
    @property
    def bytes_updated(self) -> float: ...
    @property
    def resident_bytes(self) -> float: ...
    def repeated(self, times: float) -> Cost:
        """The same work several times: operations repeat, resident memory does not grow."""
    def __add__(self, other: Cost) -> Cost: ...

Pass = Literal["forward", "backward"]

def matmul(m: float, n: float, k: float, dtype: str) -> Cost:
    """C[m,n] = A[m,k] · B[k,n]."""

def gemv(n: float, k: float, precision: str, *, group: float = 64, batch: float = 1) -> Cost:
    """y = W[n,k] · x; `precision` is a weight format: fp32, bf16, fp16, int8, int4 (in groups), llm_int8."""

def gather_gemv(n: float, k: float, precision: str, *, chosen: float, experts: float, group: float = 64) -> Cost:
    """y[e] = W[e] · x for the chosen experts."""

def llm_int8_linear(m: float, n: float, k: float, outlier_columns: float) -> Cost:
    """A linear layer by LLM.int8()."""

def attention(
    queries: float,
    keys: float,
    head_dim: float,
    dtype: str,
    *,
    heads: float = 1,
    kv_heads: float = 0,
    batch: float = 1,
    causal: bool = False,
    direction: Pass = "forward",
    naive: bool = False,
) -> Cost:
    """softmax(q · kᵀ / sqrt(d)) · v; `naive` writes the scores to memory. kv_heads 0: as many as heads."""

def layer_norm(rows: float, cols: float, dtype: str, *, direction: Pass = "forward") -> Cost: ...
def rms_norm(rows: float, cols: float, dtype: str, *, direction: Pass = "forward") -> Cost: ...
def softmax(rows: float, cols: float, dtype: str, *, direction: Pass = "forward") -> Cost: ...
def cross_entropy(rows: float, cols: float, dtype: str, *, gradient: bool = False) -> Cost:
    """The loss over logits [rows, cols], alone or with its gradient in one pass."""

def gelu(elements: float, dtype: str, *, direction: Pass = "forward") -> Cost: ...
def silu_mul(elements: float, dtype: str) -> Cost: ...
def rope(heads: float, tokens: float, head_dim: float, dtype: str) -> Cost: ...
def embedding(vocabulary: float, tokens: float, cols: float, dtype: str) -> Cost: ...
def adamw(parameters: float) -> Cost:
    """A step over fp32 parameters."""

def read(size: float) -> Cost: ...
def copy(size: float) -> Cost:
    """Reads `size` bytes and writes as many elsewhere."""

def mlp_training(batch: float, width: float, layers: float, dtype: str) -> Cost:
    """Forward and backward of layers x (Linear, GELU)."""

def transformer_training(
    size: str,
    batch: float,
    context: float,
    *,
    compute: str = "fp32",
    storage: str = "fp32",
    mode: Literal["inference", "forward", "forward_backward", "step"] = "step",
) -> Cost:
    """A step of a named transformer: small, medium, large, xl, 2.7B, …"""

def decoder_prefill(model: str, precision: str, prompt: float, *, batch: float = 1) -> Cost:
    """Reading a prompt, by the shape of a named model (llama3_1b, …; an unknown name lists all)."""

def decoder_decode(model: str, precision: str, depth: float, *, batch: float = 1) -> Cost:
    """One token of each sequence with `depth` tokens in the cache before it."""

# Right or wrong (the rule of lib/workload/tolerance.h).

def relative_tolerance(dtype: str, *, reduction: float = 1, roundings: float = 1, amplification: float = 1) -> float:
    """Largest |result - reference| in units of |reference| + rms(reference); 0: must be equal.

    `reduction`: terms of the longest sum; `roundings`: results successively rounded to dtype; `amplification`: growth
    of an error from the first of them to the last.
    """

def mismatch(result: object, reference: object, tolerance: float, *, what: str = "result") -> str:
    """Why the result is wrong; "" where it matches the reference within the tolerance, as the program judges.

    Both are C-contiguous buffers (PEP 3118, so numpy arrays) of float64 with the same shape; the result may be float32.
    With tolerance 0, int64 buffers are compared exactly.
    """

# The machine and its roofs (lib/hardware), and the sampler (lib/timing).

class SampleOptions:
    """When to stop. The defaults are the program's. Any of the fields is a keyword of the constructor."""

    warmup_iters: int | None
    """Exactly this many steps before the samples; None: until chunk medians are flat."""
    min_samples: int
    max_samples: int
    exact_samples: bool
    """Take exactly max_samples."""
    max_time: float
    """Seconds of samples."""
    max_wall: float
    """Seconds of everything."""
    max_warmup_time: float
    roof_share: float
    """Share of the time for roof probes; 0: none, and no roof."""
    def __init__(self, **fields: Any) -> None: ...

class Measurement:
    """Everything that sampling a function gave."""

    seconds: list[float]
    """Of one call, in the order of measurement."""
    median: float
    interval: tuple[float, float]
    """95 % interval of the median, which allows for correlated samples."""
    processor_seconds: float
    """Of one call, all threads together."""
    roof_name: str
    """ "memory", "caches (1024 KiB)", "bf16 arithmetic", …; "" without a roof."""
    noise: list[str]
    """Reasons why it is noisy: "ci", "drift", "others", "stolen"."""
    impossible: str
    """The message of a call so far above its roof that its cost must be wrong, or work is skipped; "" otherwise."""
    raised: Exception | None
    """What the function raised after the first chunk of samples; all finished chunks are here."""
    last_result: Any
    """What the last timed call returned: check it, it is what was measured."""
    def counters(self) -> dict[str, float]:
        """The program's counters ("FLOP/s", "roof", "ci", "noisy", …), those that apply."""
    def journal_line(self, name: str, axes: Mapping[str, object], *, repetition: int = 0, failure: str = "") -> str:
        """A line of the journal as JSON text; with a `failure`, that of a failed case with the samples before it."""

class Machine:
    """The processors as a device. One a process is enough: it keeps the measured roofs."""

    def __init__(self, threads: int = 0) -> None:
        """`threads` of the roof probes; 0: one for each processor that this process may run on."""
    def context(self) -> dict[str, str]:
        """Facts for the context of results: device, device_arch, cpu_isa, governor, …, with the program's keys."""
    def supports(self, dtype: str) -> bool:
        """Whether the hardware has arithmetic in this precision."""
    def add_compute_probe(self, dtype: str, name: str, flops: float, step: Callable[[], object]) -> None:
        """Adds a way to the arithmetic roof, a library's matrix product of `flops`; call it before `reuse_roofs`."""
    def reuse_roofs(self, library: str) -> None:
        """Takes the roofs that an earlier process or the program kept on this machine, and keeps those of this one.

        `library` names the added probes with their versions: arithmetic roofs are kept for each of them apart.
        """
    def calibrate(self, cost: Cost) -> None:
        """Measures the roofs that the cost needs and that are not known, about 0.1 to 1 s."""
    def sample(
        self,
        function: Callable[..., object],
        arguments: tuple[Any, ...] = ...,
        *,
        cost: Cost | None = None,
        cold: bool = True,
        operands: Sequence[tuple[int, int]] = (),
        options: SampleOptions | None = None,
        before_step: Callable[[], object] | None = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> Measurement:
        """Warms up, then takes samples of `function(*arguments)` with roof probes between them until the median is
        known. Without a cost there is no roof.

        `operands` are memory ranges (address, bytes): their lines are evicted before each call, untimed, and each
        sample is then one call. `before_step` is called before that, untimed too. `cold` selects the roof: memory, or
        for warm work the cache that holds its resident bytes. `interrupted` is polled between chunks; a true ends
        sampling.
        KeyboardInterrupt passes through, and so do other exceptions before there are samples; a later one is `raised`.
        """

# Results (lib/results), which the program and its reports share.

def unmeasured_line(
    name: str,
    axes: Mapping[str, object],
    verdict: Literal["skipped", "failed", "interrupted"],
    reason: str,
    *,
    repetition: int = 0,
) -> str:
    """The line of the journal of a case that was not measured."""

def rows(lines: Sequence[str], axes: Mapping[str, object], *, family_index: int = 0) -> list[str]:
    """The rows of one case from the lines of its repetitions, and its mean, median, stddev and cv if there are two."""

def contract() -> str:
    """The schema's version and the table of counters as JSON text: `roofbench --describe=json` without families."""

def human_time(seconds: float) -> str:
    """ "12.3 µs" """

def human_rate(per_second: float, unit: str) -> str:
    """ "12.3 GB/s" """
