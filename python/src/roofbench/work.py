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

__all__ = ["Counted", "Work", "of"]
__all__ += _core.__all__


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of one call. Bytes are those that must move: each operand once."""

    flops: float | Mapping[str, float] = 0  # with a mapping, by dtype
    bytes_read: float = 0
    bytes_written: float = 0
    bytes_updated: float = 0  # changed in place: each is read once and written once
    dtype: str = "fp32"  # of the arithmetic: fp32, tf32, bf16, fp16, int8, fp8, fp64

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


class Counted(Cost):
    """The work of a module, and the operators that have no part in it."""

    not_counted: tuple[str, ...] = ()

    def __add__(self, other: Cost) -> Cost:
        return _counted(Cost.__add__(self, other), self, other)

    def __radd__(self, other: Cost) -> Cost:
        return _counted(Cost.__add__(other, self), other, self)

    def repeated(self, times: float) -> Cost:
        return _counted(Cost.repeated(self, times), self)


def not_counted(cost: Cost) -> tuple[str, ...]:
    return cost.not_counted if isinstance(cost, Counted) else ()


def _counted(cost: Cost, *parts: Cost) -> Counted:
    made = Counted(
        cost.flops,
        bytes_read=cost.bytes_read,
        bytes_written=cost.bytes_written,
        bytes_updated=cost.bytes_updated,
        resident_bytes=cost.resident_bytes,
    )
    made.not_counted = tuple(dict.fromkeys(name for part in parts for name in not_counted(part)))
    return made


def of(function: Callable[..., Any], *args: Any, backward: bool = False, dtype: str | None = None) -> Counted:
    """The work of a torch module, or of a function of tensors, on meta tensors that cost no memory.

    FLOPs are those of products, as the program counts a model's: masked pairs of causal attention (`is_causal=True`)
    are not computed, and element-wise arithmetic, sums and normalizations count as nothing. `not_counted` of the result
    names operators without a formula, and all that compute where there is no product; so does the row. Arguments,
    parameters and buffers are read once, of a table whose rows are gathered as many rows as there are indices, and the
    results are written; `backward` adds the gradients of the parameters. `dtype` is that of the arithmetic: by default
    that of the first floating-point parameter or argument.
    """
    import torch
    from torch.utils._pytree import tree_leaves, tree_map_only

    from roofbench._counting import Counter, SeenPairs

    def meta(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to("meta").requires_grad_(tensor.requires_grad)

    state: dict[str, torch.Tensor] = {}
    if isinstance(function, torch.nn.Module):
        state = {**dict(function.named_parameters()), **dict(function.named_buffers())}
    meta_state = {name: meta(tensor) for name, tensor in state.items()}
    meta_args = tree_map_only(torch.Tensor, meta, args)
    given = [leaf for leaf in tree_leaves(meta_args) if isinstance(leaf, torch.Tensor)]
    counter = Counter([*meta_state.values(), *given])
    with SeenPairs(counter, backward), counter:
        if isinstance(function, torch.nn.Module):
            result = torch.func.functional_call(function, meta_state, meta_args)
        else:
            result = function(*meta_args)
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        read = counter.bytes_read()
        if backward:
            torch.autograd.backward([one.sum() for one in outputs if one.requires_grad])
    tensors = [*state.values(), *(leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor))]
    found = [DTYPES.get(str(one.dtype).removeprefix("torch.")) for one in tensors if one.is_floating_point()]
    name = dtype or next((one for one in found if one), "fp32")
    size_out = _bytes(outputs)
    learned = _bytes([tensor for tensor in tensors if tensor.requires_grad]) if backward else 0.0
    cost = _counted(
        Cost(
            {name: counter.flops} if counter.flops else {},
            bytes_read=read + (read + size_out if backward else 0),
            bytes_written=size_out + learned,
        )
    )
    cost.not_counted = tuple(counter.unknown | ({} if counter.flops else counter.cheap))
    return cost


def _bytes(tensors: list[Any]) -> float:
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors))
