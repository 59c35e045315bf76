"""Tests that measure: the row of a history is called after the test.

pytest test_kernels.py --roofbench-journal=run.jsonl
roofreport history add run.jsonl --store=history.db
pytest test_kernels.py --roofbench-gate=history.db        fails if a test became slower
"""

import numpy as np
import pytest


@pytest.mark.parametrize("n", [64, 256])
def test_matmul(roofbench, n):
    a, b = np.random.default_rng(0).standard_normal((2, n, n), dtype=np.float32)
    result = roofbench(np.matmul, a, b, work=roofbench.work.matmul(n, n, n, "fp32"), reference=np.matmul, reduction=n)
    assert result.checked


@pytest.mark.roofbench(cache="warm")
def test_sort(roofbench):
    roofbench(np.sort, np.random.default_rng(0).standard_normal(1 << 14, dtype=np.float32), reference=np.sort)
