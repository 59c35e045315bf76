# SPDX-License-Identifier: Apache-2.0
"""What a function of tensors computes and reads, operator by operator, on meta tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

_ATEN = torch.ops.aten
_ATTENTION = torch.nn.functional.scaled_dot_product_attention


def _rows_and_columns(left: torch.Tensor, right: torch.Tensor, *_: Any, **__: Any) -> float:
    """A product over the last dimension of the left one and the first of the right one."""
    return 2.0 * left.numel() * right.numel() / max(1, right.shape[0])


# Products that torch's FlopCounterMode does not know, of their arguments.
_PRODUCTS: Mapping[Any, Any] = {
    _ATEN.mv: _rows_and_columns,
    _ATEN.dot: _rows_and_columns,
    _ATEN.vdot: _rows_and_columns,
    _ATEN._int_mm: _rows_and_columns,
    _ATEN.addmv: lambda bias, left, right, **_: _rows_and_columns(left, right),
    _ATEN.addr: lambda bias, left, right, **_: 2.0 * left.numel() * right.numel(),
}
# They read as much of their first argument as they give.
_GATHERS = {_ATEN.embedding, _ATEN.index, _ATEN.index_select, _ATEN.gather, _ATEN.take}
# Names, separated by spaces. These move or make values.
_MOVES = (
    "_to_copy _unsafe_view alias arange as_strided bernoulli bernoulli_ cat clone constant_pad_nd copy copy_ detach"
    " embedding empty empty_like empty_strided expand eye fill fill_ flip full full_like gather index index_copy"
    " index_copy_ index_fill index_put index_put_ index_select lift_fresh lift_fresh_copy masked_fill masked_fill_"
    " masked_scatter native_dropout native_dropout_backward new_empty new_empty_strided new_full new_ones new_zeros"
    " ones ones_like permute rand rand_like randint randn randn_like repeat resize_ roll scalar_tensor scatter scatter_"
    " select_backward select_scatter slice_backward slice_scatter split split_with_sizes stack take tril triu unbind"
    " unsafe_split view where zero_ zeros zeros_like _local_scalar_dense"
)
# These are sums, normalizations and their gradients, which count as nothing beside products; so do element-wise ones.
_CHEAP = (
    "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _fused_rms_norm _fused_rms_norm_backward _log_softmax"
    " _log_softmax_backward_data _native_batch_norm_legit _native_batch_norm_legit_functional _safe_softmax _softmax"
    " _softmax_backward_data all amax amin any argmax argmin avg_pool2d avg_pool2d_backward embedding_dense_backward"
    " gelu_backward index_add index_add_ linalg_vector_norm logsumexp max max_pool2d_with_indices"
    " max_pool2d_with_indices_backward mean min mse_loss mse_loss_backward native_batch_norm native_batch_norm_backward"
    " native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward nll_loss_backward"
    " nll_loss_forward prod scatter_add scatter_add_ sigmoid_backward silu_backward std sum tanh_backward"
    " threshold_backward var var_mean"
)


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # no types in torch
    """Counts products, and what is read of the given tensors."""

    _moves, _cheap = frozenset(_MOVES.split()), frozenset(_CHEAP.split())

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0.0
        self.unknown: dict[str, None] = {}  # operators without a formula
        self.cheap: dict[str, None] = {}  # operators that count as nothing
        self._sizes = {_memory(one): one.untyped_storage().nbytes() for one in inputs}
        self._read: dict[int, dict[Any, float]] = {memory: {} for memory in self._sizes}  # bytes of each view

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        operator = func.overloadpacket
        if operator not in flop_registry and operator not in _PRODUCTS:
            with self:
                made = func.decompose(*args, **kwargs)
            if made is not NotImplemented:
                return made
        out = func(*args, **kwargs)
        if not func.is_view:
            self._count(func, args, kwargs, out)
            self._note_reads(operator, args, kwargs, out)
        return out

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        operator, name = func.overloadpacket, func.name().partition(".")[0]
        if operator in flop_registry:
            self.flops += flop_registry[operator](*args, **kwargs, out_val=out)
        elif operator in _PRODUCTS:
            self.flops += _PRODUCTS[operator](*args)
        elif name.removeprefix("aten::") in self._moves:
            return
        elif torch.Tag.pointwise in func.tags or name.removeprefix("aten::") in self._cheap:
            self.cheap[name] = None
        else:
            self.unknown[name] = None

    def _note_reads(self, operator: Any, args: Any, kwargs: Any, out: Any) -> None:
        gathered: Any = args[0] if operator in _GATHERS else None
        for tensor in tree_leaves((args, kwargs)):
            views = self._read.get(_memory(tensor)) if isinstance(tensor, torch.Tensor) else None
            if views is None:
                continue
            if tensor is gathered:  # perhaps other rows than the last operator's
                key: Any = len(views)
                size = min(out.numel(), tensor.numel()) * tensor.element_size()
            else:
                key = tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
                size = _distinct(tensor) * tensor.element_size()
            views[key] = size

    def bytes_read(self) -> float:
        return float(sum(min(self._sizes[memory], sum(views.values())) for memory, views in self._read.items()))


class SeenPairs(TorchFunctionMode):
    """Corrects the products of causal attention: a query sees no keys behind its own."""

    def __init__(self, counter: Counter, backward: bool) -> None:
        super().__init__()
        self._counter, self._backward = counter, backward

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        before = self._counter.flops
        out = func(*args, **kwargs)
        if func is _ATTENTION and (kwargs.get("is_causal") or (len(args) > 5 and args[5])):
            named = dict(zip(("query", "key", "value"), args, strict=False)) | kwargs
            query, key, value = (named[name] for name in ("query", "key", "value"))
            queries, keys = query.shape[-2], key.shape[-2]
            # torch's mask: query i sees the keys up to i.
            seen = sum(min(keys, i + 1) for i in range(queries)) / max(1, queries * keys)
            passes = 1.0
            if self._backward:
                grads = [one.requires_grad for one in (query, key, value)]
                passes += (grads[2] + (grads[0] or grads[1]) + grads[0] + grads[1]) / 2
            self._counter.flops -= (1 - seen) * (self._counter.flops - before) * passes
        return out


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _distinct(tensor: torch.Tensor) -> int:
    """Elements with memory of their own: an expanded dimension repeats the same ones."""
    return math.prod(size for size, step in zip(tensor.shape, tensor.stride(), strict=True) if step)
