"""Families: cases on axes, as those of the roofbench program.

python -m roofbench run families.py
python -m roofbench run families.py --filter=matmul --axis=n=64:512:x2 --journal=run.jsonl
"""

import numpy as np
import roofbench

TYPES = {"fp32": np.float32, "fp64": np.float64}


@roofbench.family(n=[128, 256], dtype=roofbench.Axis("fp32", "fp64", default="fp32"), growth={"n": 3})
def matmul(n, dtype):
    """C = A · B by numpy"""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((n, n)).astype(TYPES[dtype]) for _ in range(2))
    # The roofs know no fp64 arithmetic: without work, no roof is claimed.
    work = roofbench.work.matmul(n, n, n, "fp32") if dtype == "fp32" else None
    return roofbench.Case(np.matmul, a, b, work=work, reference=np.matmul, reduction=n)


@roofbench.family(impl=["numpy", "torch"], elements=[1 << 20], cache=["cold", "warm"])
def relu(impl, elements):
    """y = max(x, 0)"""
    x = np.random.default_rng(0).standard_normal(elements, dtype=np.float32)
    work = roofbench.Work(flops=elements, bytes_read=4 * elements, bytes_written=4 * elements)

    def reference(x):
        return np.maximum(x, 0)

    if impl == "numpy":
        return roofbench.Case(reference, x, work=work, reference=reference)
    try:
        import torch
    except ImportError:
        raise roofbench.Skip("torch is not installed") from None
    return roofbench.Case(torch.relu, torch.from_numpy(x), work=work, reference=torch.relu)
