"""A Triton kernel against torch's operator, on a GPU.

python triton_add.py
"""

import sys

import roofbench

try:
    import torch
    import triton
    import triton.language as tl
except ImportError as missing:
    print(f"skipped: {missing.name} is not installed")
    sys.exit()
if not torch.cuda.is_available():
    print("skipped: there is no GPU that torch can use, and Triton compiles for GPUs")
    sys.exit()

ELEMENTS, BLOCK = 1 << 24, 1024


@triton.jit
def add_kernel(x, y, result, elements, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < elements
    tl.store(result + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    result = torch.empty_like(x)
    add_kernel[(triton.cdiv(ELEMENTS, BLOCK),)](x, y, result, ELEMENTS, BLOCK)
    return result


x, y = torch.randn(2, ELEMENTS, device="cuda")
work = roofbench.Work(flops=ELEMENTS, bytes_read=8 * ELEMENTS, bytes_written=4 * ELEMENTS)
try:
    print(roofbench.measure(add, x, y, work=work, reference=torch.add, name="add/impl:triton"))
    print(roofbench.measure(torch.add, x, y, work=work, reference=torch.add, name="add/impl:eager"))
except TypeError as refused:
    print(f"skipped: {refused}")
    sys.exit()
