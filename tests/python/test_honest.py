# SPDX-License-Identifier: Apache-2.0
"""Functions that do their work, in ways that look like those of test_cheats.py: none fails."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
import roofbench
import torch
import torch.nn.functional as F  # noqa: N812

_generator = np.random.default_rng(3)
_FEW: dict[str, Any] = {"max_time": 0.02, "max_warmup_time": 0.01, "max_samples": 20, "max_wall": 30}


def _floats(*shape: int) -> Any:
    return _generator.standard_normal(shape, dtype=np.float32)


def _honest(function: Callable[..., Any], *args: Any, reference: Callable[..., Any], **options: Any) -> Any:
    result = roofbench.measure(function, *args, reference=reference, **(_FEW | options))
    assert result.ok, result.failure
    assert result.checked
    assert result.median is not None and result.first_call is not None
    assert len(result.samples) >= 1
    return result


def test_product_of_numpy() -> None:
    _honest(np.matmul, _floats(96, 128), _floats(128, 80), reference=lambda a, b: a @ b)


def test_one_array_given_twice() -> None:
    x = _floats(64, 64)
    _honest(np.matmul, x, x, reference=lambda a, b: a @ b)


def test_two_views_of_an_array() -> None:
    x = _floats(100, 64)
    _honest(lambda a, b: a[:50] + b[:50], x[:60], x[40:], reference=lambda a, b: a[:50] + b[:50])


def test_sum_in_another_order() -> None:
    _honest(lambda x: x.T.sum(axis=0), _floats(200, 300), reference=lambda x: x.sum(axis=1))


def test_whole_sum_is_a_number() -> None:
    _honest(lambda x: float(x.sum()), _floats(5000), reference=lambda x: x.sum())


def test_preallocated_output_of_the_closure() -> None:
    out = np.empty((64, 64), np.float32)
    _honest(lambda a, b: np.matmul(a, b, out=out), _floats(64, 64), _floats(64, 64), reference=lambda a, b: a @ b)


def test_declared_output_argument() -> None:
    def into(a: Any, out: Any) -> None:
        np.multiply(a, 2, out=out)

    _honest(into, _floats(1000), np.zeros(1000, np.float32), reference=lambda a, out: a * 2, mutates=[1])


def test_declared_change_in_place() -> None:
    def scale(x: Any) -> None:
        x *= 1.5

    x = _floats(1000)
    before = x.copy()
    _honest(scale, x, reference=scale, mutates=[0])
    assert np.array_equal(x, before)


def test_view_where_the_reference_gives_one() -> None:
    _honest(lambda x: x.T, _floats(30, 40), reference=lambda x: x.transpose())


def test_a_view_beside_a_new_array() -> None:
    _honest(lambda x: (x + 1, x.T), _floats(30, 40), reference=lambda x: (x + 1, x.transpose()))


def test_arguments_that_are_views() -> None:
    base = _floats(200, 200)
    _honest(np.matmul, base[::2, 10:90], base[:80:1, ::-1].T[:80], reference=lambda a, b: a @ b)


def test_noncontiguous_tensor() -> None:
    x = torch.randn(50, 70).t()[::3]
    _honest(torch.relu, x, reference=torch.relu)


def test_broadcast_argument() -> None:
    x = np.broadcast_to(_floats(1, 64), (32, 64))
    _honest(np.add, x, _floats(32, 64), reference=lambda a, b: a + b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_gelu_of_torch(dtype: torch.dtype) -> None:
    _honest(F.gelu, torch.randn(64, 100).to(dtype), reference=F.gelu)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_product_of_torch(dtype: torch.dtype) -> None:
    a, b = torch.randn(64, 256).to(dtype), torch.randn(256, 48).to(dtype)
    _honest(torch.mm, a, b, reference=lambda a, b: a @ b)


def test_deep_module_in_bf16() -> None:
    """The rounding of many layers is that of the reference itself."""
    layers: list[torch.nn.Module] = []
    for _ in range(6):
        layers += [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)]
    module = torch.nn.Sequential(*layers).bfloat16().eval()
    _honest(lambda x: module(x), torch.randn(32, 64).bfloat16(), reference=module)


def test_int8_product() -> None:
    a = _generator.integers(-127, 127, (64, 64), np.int8)
    _honest(lambda a, b: a.astype(np.int32) @ b, a, a.T.copy(), reference=lambda a, b: a.astype(np.int64) @ b)


def test_indices_stay_valid() -> None:
    table, indices = torch.randn(50, 16), torch.randint(0, 50, (200,))
    _honest(F.embedding, indices, table, reference=lambda indices, table: table[indices])


def test_offsets_alone() -> None:
    """Integers that are the only input may be sorted; the function needs them so."""
    offsets = np.arange(0, 1000, 10)
    _honest(np.diff, offsets, reference=np.diff)


def test_structure_that_the_function_needs() -> None:
    """A Cholesky factor exists of few matrices: fresh values keep the structure where others fail."""
    x = _floats(40, 40).astype(np.float64)
    _honest(np.linalg.cholesky, x @ x.T + 40 * np.eye(40), reference=np.linalg.cholesky, tolerance=1e-9)


def test_inputs_by_seed() -> None:
    def inputs(seed: int) -> tuple[Any]:
        return (np.sort(np.random.default_rng(seed).standard_normal(500)),)

    _honest(lambda x: x.searchsorted(0.5), *inputs(0), reference=lambda x: np.searchsorted(x, 0.5), inputs=inputs)


def test_infinities_of_a_mask() -> None:
    mask = np.triu(np.full((32, 32), -np.inf, np.float32), 1)

    def softmax(x: Any, mask: Any) -> Any:
        y = np.exp(x + mask - (x + mask).max(axis=1, keepdims=True))
        return y / y.sum(axis=1, keepdims=True)

    _honest(softmax, _floats(32, 32), mask, reference=lambda x, m: softmax(x, m))


def test_module_and_its_reference_share_weights() -> None:
    module = torch.nn.Linear(32, 16)
    result = _honest(module, torch.randn(8, 32), reference=lambda x: x @ module.weight.T + module.bias)
    assert result.notes == ()  # the weights that the reference refers to are in double precision too


_layer = torch.nn.BatchNorm1d(32)


def test_reference_with_state_of_its_own() -> None:
    """A copy of a module at the top of a file trains; the module itself is that of the function alone."""
    untouched = torch.nn.BatchNorm1d(32)
    result = _honest(lambda x: untouched(x), torch.randn(8, 32), reference=lambda x: _layer(x))
    assert [note for note in result.notes if "untouched" not in note] == []
    assert _layer.num_batches_tracked == 0


def test_declared_change_of_a_tensor_in_place() -> None:
    def scale(x: Any) -> None:
        x.mul_(1.5)

    x = torch.randn(1000)
    before = x.clone()
    _honest(scale, x, reference=scale, mutates=[0])
    assert torch.equal(x, before)


def test_module_as_an_argument() -> None:
    _honest(lambda m, x: m(x), torch.nn.Conv2d(3, 4, 3), torch.randn(2, 3, 16, 16), reference=lambda m, x: m(x))


def test_forward_and_backward() -> None:
    def step(module: Any, x: Any) -> None:
        module(x).square().mean().backward()

    module = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    _honest(step, module, torch.randn(16, 32), reference=step)


def test_gradient_of_an_argument() -> None:
    def step(x: Any) -> Any:
        y = (x**3).sum()
        y.backward()
        return y.detach()

    _honest(step, torch.randn(40, 40, requires_grad=True), reference=step)


class _Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class _Batch:
    tokens: Any
    parts: dict[str, list[Any]]


def test_nested_arguments_and_results() -> None:
    def work(batch: Any, pair: Any) -> Any:
        return {"sum": batch.tokens + batch.parts["more"][0], "pair": _Pair(pair.left * 2, (pair.right, 3))}

    batch = _Batch(_floats(50), {"more": [_floats(50)]})
    _honest(work, batch, _Pair(torch.randn(5), 1.5), reference=work)


def test_loop_of_python() -> None:
    def total(x: Any) -> float:
        result = 0.0
        for value in x.tolist():
            result += value * value
        return result

    _honest(total, _floats(500), reference=lambda x: (x * x).sum())


def test_generator_consumed_inside() -> None:
    _honest(
        lambda x: list(map(float, (row.sum() for row in x))),
        _floats(20, 30),
        reference=lambda x: x.sum(axis=1).tolist(),
    )


def test_partial_and_method() -> None:
    class Scaler:
        factor = 3.0

        def apply(self, x: Any) -> Any:
            return x * self.factor

    _honest(Scaler().apply, _floats(100), reference=lambda x: x * 3.0)
    _honest(functools.partial(np.sum, axis=0), _floats(30, 20), reference=lambda x: x.sum(axis=0))


def test_table_made_in_the_first_call() -> None:
    """Results that do not depend on the values may be kept."""
    kept: dict[int, Any] = {}

    def windowed(x: Any) -> Any:
        if x.size not in kept:
            kept[x.size] = np.hanning(x.size).astype(np.float32)
        return x * kept[x.size]

    _honest(windowed, _floats(4000), reference=lambda x: x * np.hanning(x.size))


def test_slow_first_call() -> None:
    calls = itertools.count()

    def work(x: Any) -> Any:
        if next(calls) == 0:
            sum(range(300_000))
        return x + 1

    _honest(work, _floats(1000), reference=lambda x: x + 1)


def test_idle_threads_of_a_pool() -> None:
    with ThreadPoolExecutor(2) as pool:

        def work(x: Any) -> Any:
            return np.concatenate(list(pool.map(np.sqrt, np.split(np.abs(x), 4))))

        _honest(work, _floats(4000), reference=lambda x: np.sqrt(np.abs(x)))


def test_empty_result() -> None:
    _honest(lambda x: x[x > 100], _floats(100), reference=lambda x: x[x > 100])


def test_complex_numbers() -> None:
    _honest(np.fft.fft, _floats(256).astype(np.complex64), reference=np.fft.fft)


def test_buffer_as_an_argument() -> None:
    _honest(lambda x: sum(x), bytearray(range(200)), reference=lambda x: int(x.sum()))


def test_sorting() -> None:
    _honest(np.sort, np.sort(_floats(20000)), reference=np.sort)


def test_warm() -> None:
    result = _honest(np.add, _floats(100), _floats(100), reference=lambda a, b: a + b, cache="warm")
    assert result.name == "add/cache:warm"


def test_close_to_the_roof() -> None:
    x = _floats(1 << 22)
    _honest(np.copy, x, reference=np.copy, work=roofbench.work.copy(x.nbytes))


@pytest.mark.skipif((os.cpu_count() or 1) > 16, reason="starts eight programs for each processor")
def test_beside_many_programs() -> None:
    """They leave too little of the processor to measure a roof."""
    x = _floats(1 << 16)
    loop = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    loops = [subprocess.Popen(loop, stdout=subprocess.PIPE) for _ in range(8 * (os.cpu_count() or 1))]
    try:
        for one in loops:
            assert one.stdout is not None and one.stdout.readline()
        result = _honest(np.sort, x, reference=np.sort, work=roofbench.work.copy(x.nbytes), max_time=0.2)
    finally:
        for one in loops:
            one.kill()
            one.communicate()
    assert result.noisy and result.disturbed and result.roof is None


def test_without_arrays() -> None:
    _honest(lambda n: sum(range(n)), 1000, reference=lambda n: n * (n - 1) // 2)


@pytest.mark.nightly
def test_compiled_function() -> None:
    """Compilation is in the first call, not among the samples."""
    compiled = torch.compile(lambda x: F.gelu(x) * 2)
    result = _honest(compiled, torch.randn(1000), reference=lambda x: F.gelu(x) * 2)
    assert result.first_call > 10 * result.median


def test_custom_operator_of_a_process_leaves_nothing_to_report() -> None:
    """PyTorch keeps the globals of its operators until after the modules are gone."""
    program = (
        "import roofbench, torch\n"
        "@torch.library.custom_op('tests::twice', mutates_args=())\n"
        "def twice(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x * 2\n"
        "result = roofbench.measure(twice, torch.ones(1000), reference=lambda x: x * 2, max_time=0.05)\n"
        "assert result.ok, result\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr
