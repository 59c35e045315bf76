"""Four families of the program in Python: the same operators, operands and names, compared in docs/python.md.

python -m roofbench run same_as_program.py
"""

import roofbench
import torch

torch.set_grad_enabled(False)

FP32 = ["fp32"]
ROWS = 4096


def randn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@roofbench.family(impl=["eager"], dtype=FP32, n=[512])
def matmul(impl, dtype, n):
    """C = A · B"""
    operands = randn(n, n), randn(n, n), torch.empty(n, n)
    work = roofbench.work.matmul(n, n, n, dtype)
    return roofbench.Case(
        lambda a, b, c: torch.mm(a, b, out=c),
        *operands,
        mutates=[2],
        work=work,
        reduction=n,
        reference=lambda a, b, _: a @ b,
    )


@roofbench.family(impl=["eager"], precision=FP32, n=[4096])
def gemv(impl, precision, n):
    """y = W · x"""
    operands = randn(n, n), randn(n), torch.empty(n)
    work = roofbench.work.gemv(n, n, precision)
    return roofbench.Case(
        lambda w, x, y: torch.mv(w, x, out=y),
        *operands,
        mutates=[2],
        work=work,
        reduction=n,
        reference=lambda w, x, _: w @ x,
    )


@roofbench.family(impl=["eager"], dtype=FP32, d=[4096])
def softmax(impl, dtype, d):
    """y = softmax(x), row by row"""
    operands = randn(ROWS, d), torch.empty(ROWS, d)
    work = roofbench.work.softmax(ROWS, d, dtype)
    return roofbench.Case(
        lambda x, y: torch.softmax(x, 1, out=y),
        *operands,
        mutates=[1],
        work=work,
        reduction=d,
        reference=lambda x, _: torch.softmax(x, 1),
    )


@roofbench.family(impl=["eager"], dtype=FP32, d=[4096])
def layer_norm(impl, dtype, d):
    """y = layer_norm(x) · weight + bias, row by row"""

    def normalized(x, weight, bias):
        return torch.nn.functional.layer_norm(x, [d], weight, bias)

    work = roofbench.work.layer_norm(ROWS, d, dtype)
    return roofbench.Case(normalized, randn(ROWS, d), randn(d), randn(d), work=work, reduction=d, reference=normalized)
