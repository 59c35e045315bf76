# SPDX-License-Identifier: Apache-2.0
"""The work of a call: the formulas of the roofbench program, and `of`, which counts that of a torch module.

roofbench.measure(f, a, b, work=roofbench.work.matmul(512, 512, 512, "fp32"))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from roofbench import _core
from roofbench._check import DTYPES
from roofbench._core import *  # noqa: F403
from roofbench._core import Cost

__all__ = ["Work", "of"]
__all__ += _core.__all__


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of one call. Bytes are those that must move: each operand once."""

    flops: float | Mapping[str, float] = 0  # with a mapping, by dtype
    bytes_read: float = 0
    bytes_written: float = 0
    bytes_updated: float = 0  # changed in place: each is read once and written once
    dtype: str = "fp32"  # of the arithmetic: fp32, tf32, bf16, fp16, int8, fp8

    def __post_init__(self) -> None:
        self.cost()  # raises TypeError or ValueError here, where the mistake is

    def cost(self) -> Cost:
        flops = self.flops if isinstance(self.flops, Mapping) else {self.dtype: self.flops} if self.flops else {}
        sizes = {name: _number(name, getattr(self, name)) for name in ("bytes_read", "bytes_written", "bytes_updated")}
        return Cost({dtype: _number("flops", count) for dtype, count in flops.items()}, **sizes)


def _number(name: str, value: Any) -> float:
    if hasattr(value, "__float__"):
        return float(value)
    raise TypeError(f"{name}={value!r}: expected a number, not a {type(value).__name__}")


def of(function: Callable[..., Any], *args: Any, backward: bool = False, dtype: str | None = None) -> Cost:
    """The work of a torch module, or of a function of tensors: products by torch's FlopCounterMode, on meta tensors
    that cost no memory; element-wise arithmetic counts as nothing. Reads arguments, parameters and buffers once, and
    writes the results; `backward` adds the gradients of the parameters. `dtype` is that of the arithmetic: by default
    that of the first floating-point parameter or argument.
    """
    import torch
    from torch.utils._pytree import tree_leaves, tree_map_only
    from torch.utils.flop_counter import FlopCounterMode

    def meta(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to("meta").requires_grad_(tensor.requires_grad)

    state: dict[str, torch.Tensor] = {}
    if isinstance(function, torch.nn.Module):
        state = {**dict(function.named_parameters()), **dict(function.named_buffers())}
    meta_state = {name: meta(tensor) for name, tensor in state.items()}
    meta_args = tree_map_only(torch.Tensor, meta, args)
    with FlopCounterMode(display=False) as counter:
        if isinstance(function, torch.nn.Module):
            result = torch.func.functional_call(function, meta_state, meta_args)
        else:
            result = function(*meta_args)
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if backward:
            torch.autograd.backward([one.sum() for one in outputs if one.requires_grad])
    tensors = [*state.values(), *(leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor))]
    found = [DTYPES.get(str(one.dtype).removeprefix("torch.")) for one in tensors if one.is_floating_point()]
    name = dtype or next((one for one in found if one), "fp32")
    flops = float(counter.get_total_flops())
    size_in, size_out = _bytes(tensors), _bytes(outputs)
    learned = _bytes([tensor for tensor in tensors if tensor.requires_grad]) if backward else 0.0
    return Cost(
        {name: flops} if flops else {},
        bytes_read=size_in + (size_in + size_out if backward else 0),
        bytes_written=size_out + learned,
    )


def _bytes(tensors: list[Any]) -> float:
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors))
