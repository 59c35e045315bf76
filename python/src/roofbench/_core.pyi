"""
The C++ half: sampler, roofs, formulas of work, comparison and results. Times are in seconds
"""

from collections.abc import Callable, Mapping, Sequence


class Cost:
    """The work of one step. Costs add up"""

    def __init__(self, flops: Mapping[str, float] = {}, *, bytes_read: float = 0, bytes_written: float = 0, bytes_updated: float = 0, resident_bytes: float | None = None) -> None:
        """
        bytes_updated are changed in place: each is read once and written once. resident_bytes, by default all, is the memory alive at the peak of a step: warm work is compared with the cache that holds it
        """

    @property
    def flops(self) -> dict[str, float]:
        """By dtype of the multiplier, without those at 0"""

    @property
    def total_flops(self) -> float: ...

    @property
    def bytes(self) -> float:
        """Read + written + 2 x updated"""

    @property
    def bytes_read(self) -> float: ...

    @property
    def bytes_written(self) -> float: ...

    @property
    def bytes_updated(self) -> float: ...

    @property
    def resident_bytes(self) -> float: ...

    def repeated(self, times: float) -> Cost:
        """Operations repeat, resident memory does not grow"""

    def __add__(self, arg: Cost, /) -> Cost: ...

    def __repr__(self) -> str: ...

def matmul(m: float, n: float, k: float, dtype: str) -> Cost:
    """C[m,n] = A[m,k] · B[k,n]"""

def gemv(n: float, k: float, precision: str, *, group: float = 64, batch: float = 1) -> Cost:
    """
    y = W[n,k] · x; precision is a weight format: fp32, bf16, fp16, int8, int4 (in groups), llm_int8, fp8
    """

def gather_gemv(n: float, k: float, precision: str, *, chosen: float, experts: float, group: float = 64) -> Cost:
    """y[e] = W[e] · x for the chosen experts"""

def llm_int8_linear(m: float, n: float, k: float, outlier_columns: float) -> Cost:
    """A linear layer by LLM.int8()"""

def attention(queries: float, keys: float, head_dim: float, dtype: str, *, heads: float = 1, kv_heads: float = 0, batch: float = 1, causal: bool = False, direction: str = 'forward', naive: bool = False) -> Cost:
    """
    softmax(q · kᵀ / sqrt(d)) · v; naive writes the scores to memory. kv_heads 0: as many as heads
    """

def layer_norm(rows: float, cols: float, dtype: str, *, direction: str = 'forward') -> Cost:
    """direction: forward, backward"""

def rms_norm(rows: float, cols: float, dtype: str, *, direction: str = 'forward') -> Cost:
    """direction: forward, backward"""

def softmax(rows: float, cols: float, dtype: str, *, direction: str = 'forward') -> Cost:
    """direction: forward, backward"""

def cross_entropy(rows: float, cols: float, dtype: str, *, gradient: bool = False) -> Cost:
    """
    The loss over logits [rows, cols], alone or with its gradient in one pass
    """

def gelu(elements: float, dtype: str, *, direction: str = 'forward') -> Cost:
    """direction: forward, backward"""

def silu_mul(elements: float, dtype: str) -> Cost: ...

def rope(heads: float, tokens: float, head_dim: float, dtype: str) -> Cost: ...

def embedding(vocabulary: float, tokens: float, cols: float, dtype: str) -> Cost: ...

def adamw(parameters: float) -> Cost:
    """A step over fp32 parameters"""

def read(size: float) -> Cost: ...

def copy(size: float) -> Cost:
    """Reads `size` bytes and writes as many elsewhere"""

def mlp_training(batch: float, width: float, layers: float, dtype: str) -> Cost:
    """Forward and backward of layers x (Linear, GELU)"""

def transformer_training(size: str, batch: float, context: float, *, compute: str = 'fp32', storage: str = 'fp32', mode: str = 'step') -> Cost:
    """
    A step of a named transformer (small, medium, …); mode: inference, forward, forward_backward, step
    """

def decoder_prefill(model: str, precision: str, prompt: float, *, batch: float = 1) -> Cost:
    """
    Reading a prompt, by the shape of a named model (llama3_1b, …; an unknown name lists all)
    """

def decoder_decode(model: str, precision: str, depth: float, *, batch: float = 1) -> Cost:
    """One token of each sequence with `depth` tokens in the cache before it"""

__all__: list = ['Cost', 'matmul', 'gemv', 'gather_gemv', 'llm_int8_linear', 'attention', 'layer_norm', 'rms_norm', 'softmax', 'cross_entropy', 'gelu', 'silu_mul', 'rope', 'embedding', 'adamw', 'read', 'copy', 'mlp_training', 'transformer_training', 'decoder_prefill', 'decoder_decode']

version: str = '0.2.0'

git_revision: str = '04b1c73f48ce-dirty'

def relative_tolerance(dtype: str, *, reduction: float = 1, roundings: float = 1, amplification: float = 1) -> float:
    """
    Largest |result - reference| in units of |reference| + rms(reference), by lib/workload/tolerance.h
    """

def mismatch(result: object, reference: object, tolerance: float, *, what: str = 'result') -> str:
    """
    Why the result is wrong, or "". C-contiguous buffers of float64 and of one shape; the result may be float32. With tolerance 0, buffers of int64 are compared exactly
    """

class SampleOptions:
    """When to stop (lib/timing/sampler.h)"""

    def __init__(self, **fields: float | None) -> None: ...

    @property
    def warmup_iters(self) -> int | None: ...

    @warmup_iters.setter
    def warmup_iters(self, arg: int | None, /) -> None: ...

    @property
    def min_samples(self) -> int: ...

    @min_samples.setter
    def min_samples(self, arg: int, /) -> None: ...

    @property
    def max_samples(self) -> int: ...

    @max_samples.setter
    def max_samples(self, arg: int, /) -> None: ...

    @property
    def exact_samples(self) -> bool: ...

    @exact_samples.setter
    def exact_samples(self, arg: bool, /) -> None: ...

    @property
    def max_time(self) -> float: ...

    @max_time.setter
    def max_time(self, arg: float, /) -> None: ...

    @property
    def max_wall(self) -> float: ...

    @max_wall.setter
    def max_wall(self, arg: float, /) -> None: ...

    @property
    def max_warmup_time(self) -> float: ...

    @max_warmup_time.setter
    def max_warmup_time(self, arg: float, /) -> None: ...

    @property
    def roof_share(self) -> float: ...

    @roof_share.setter
    def roof_share(self, arg: float, /) -> None: ...

class Machine:
    """
    The processors as a device, which keeps the measured roofs: one a process
    """

    def __init__(self, threads: int = 0) -> None:
        """threads of the probes; 0: one for each processor of this process"""

    def context(self) -> dict[str, str]:
        """Facts for the context of results, with the program's keys"""

    def supports(self, dtype: str) -> bool:
        """Whether the hardware has arithmetic in this precision"""

    def add_compute_probe(self, dtype: str, name: str, flops: float, step: Callable) -> None:
        """
        A way to the arithmetic roof, such as a library's product; call it before reuse_roofs
        """

    def reuse_roofs(self, library: str) -> None:
        """
        Takes the roofs that an earlier process kept, and keeps those of this one. `library` names the added probes with their versions: arithmetic roofs are kept for each of them
        """

    def calibrate(self, cost: Cost) -> None:
        """Measures the unknown roofs that the cost needs, 0.1 to 1 s"""

    def sample(self, function: Callable, arguments: tuple = (), *, cost: Cost | None = None, cold: bool = True, operands: Sequence[tuple[int, int]] = (), options: SampleOptions | None = None, before_step: Callable | None = None, interrupted: Callable | None = None) -> Measurement:
        """
        Takes samples of function(*arguments), with roof probes between them where there is a cost. `operands`: (address, bytes) whose lines are evicted before each call, after before_step, untimed. `cold` selects the roof. `interrupted` is polled between chunks. A KeyboardInterrupt passes through, and so do other exceptions before there are samples; a later one is `raised`
        """

class Measurement:
    @property
    def seconds(self) -> list[float]: ...

    @property
    def median(self) -> float: ...

    @property
    def interval(self) -> tuple[float, float]: ...

    @property
    def processor_seconds(self) -> float:
        """Of one call, all threads together"""

    @property
    def roof_name(self) -> str: ...

    @property
    def noise(self) -> list[str]: ...

    @property
    def impossible(self) -> str:
        """Why the call cannot have done its work, or "\""""

    @property
    def raised(self, /) -> Exception | None:
        """
        What the function raised after the first chunk of samples; all finished chunks are here
        """

    @property
    def last_result(self) -> object:
        """What the last timed call returned"""

    def counters(self) -> dict[str, float]: ...

    def journal_line(self, name: str, axes: dict, *, repetition: int = 0, failure: str = '') -> str:
        """
        A line of the journal; with a failure, that of a failed case with the samples before it
        """

class Journal:
    """
    That of a run: a line for each finished case, given to the system at once
    """

    def __init__(self, path: str, run: dict, context: dict, contract: str, *, resume: bool) -> None: ...

    @property
    def context(self) -> dict[str, str]: ...

    @property
    def lines(self) -> list[str]:
        """Of earlier processes of this run"""

    @property
    def notes(self) -> list[str]: ...

    def append(self, line: str) -> str:
        """Why it could not be written, or "\""""

def unmeasured_line(name: str, axes: dict, verdict: str, reason: str, *, repetition: int = 0) -> str:
    """
    The line of a case that was not measured; verdict: skipped, failed, interrupted
    """

def rows(lines: Sequence[str], axes: dict, *, family_index: int = 0) -> list[str]:
    """
    The rows of one case from the lines of its repetitions, with their aggregates if there are two
    """

def contract() -> str:
    """roofbench --describe=json without families"""

def human_time(seconds: float) -> str: ...

def human_rate(per_second: float, unit: str) -> str: ...
