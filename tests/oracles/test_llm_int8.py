# SPDX-License-Identifier: Apache-2.0
"""Our LLM.int8() layers match bitsandbytes on the CPU, with and without outliers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from built_program import BIN

pytestmark = pytest.mark.slow  # importing torch and bitsandbytes takes seconds


@pytest.mark.parametrize("threshold", [0.0, 2.5, 6.0])
@pytest.mark.parametrize(("tokens", "outliers"), [(1, 0), (1, 3), (7, 0), (7, 5), (70, 0), (70, 5)])
def test_linear(tmp_path: Path, tokens: int, outliers: int, threshold: float) -> None:
    pytest.importorskip("bitsandbytes")  # registers the operations

    n, k = 384, 512
    generator = torch.Generator().manual_seed(tokens + outliers)
    # Numbers that fp16 and bf16 both hold, so that neither rounding comes into the comparison.
    x = (torch.randn(tokens, k, generator=generator).clamp(-5, 5)).to(torch.bfloat16).to(torch.float16)
    columns = torch.randperm(k, generator=generator)[:outliers]
    x[0, columns] = 24.0
    w = (torch.randn(n, k, generator=generator) / 16).to(torch.float16)
    data = tmp_path / "in"
    data.write_bytes(x.float().numpy().tobytes() + w.float().numpy().tobytes())
    out = tmp_path / "out"
    command = [str(BIN / "llm_int8_linear"), str(tokens), str(n), str(k), str(threshold), str(data), str(out)]
    subprocess.run(command, check=True, timeout=600)
    found = np.fromfile(out, np.float32)
    eager, native, weight, row_max = np.split(found, np.cumsum([tokens * n, tokens * n, n * k]))

    ops = torch.ops.bitsandbytes
    quantized, maxima, _ = ops.int8_vectorwise_quant(w.clone(), 0.0)
    assert np.abs(weight.reshape(n, k) - quantized.float().numpy()).max() <= 1
    np.testing.assert_allclose(row_max, maxima.numpy(), rtol=1e-6)
    rows, row_maxima, found_columns = ops.int8_vectorwise_quant(x.clone(), threshold)
    expected, _ = ops.int8_mixed_scaled_mm(x, rows, quantized, row_maxima, maxima, found_columns)
    if threshold > 0:
        of_any_row = (x.abs() >= threshold).any(0).nonzero().flatten().tolist()
        assert sorted(found_columns.tolist()) == of_any_row
        assert threshold < 5 or of_any_row == sorted(columns.tolist())
    # Upstream's own bound: 0.03, and at most 2.5e-4 of the elements beyond 0.02. Where outliers are not separated, they
    # coarsen every step of their row, in both implementations.
    for ours in (eager, native):
        error = np.abs(ours.reshape(tokens, n) - expected.float().numpy())
        scale = max(1.0, float(expected.float().abs().max()) / 8)
        assert error.max() <= 0.03 * scale
        assert np.mean(error > 0.02 * scale) <= 2.5e-4
    exact = x.double() @ w.double().T
    assert np.abs(eager.reshape(tokens, n) - exact.numpy()).max() > 0, "nothing was quantized"
