# SPDX-License-Identifier: Apache-2.0
"""Work: the program's formulas, and that of torch modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import roofbench
import torch
from roofbench import Work, work
from roofbench.work import Cost


def test_work_is_a_cost() -> None:
    cost = Work(flops=6, bytes_read=1, bytes_written=2, bytes_updated=3, dtype="bf16").cost()
    assert cost.flops == {"bf16": 6}
    assert cost.bytes == 1 + 2 + 2 * 3
    assert Work(flops={"fp32": 1, "int8": 2}).cost().flops == {"fp32": 1, "int8": 2}
    assert Work(bytes_read=5).cost().flops == {}


def test_unknown_dtype_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="bf16"):
        Work(flops=1, dtype="float99").cost()


def test_less_than_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"flops=-1\.0: expected a number from 0"):
        Work(flops=-1).cost()


@pytest.mark.parametrize(
    "formula",
    [
        lambda size: work.matmul(size, 3, 5, "fp32"),
        lambda size: work.softmax(4, size, "fp32"),
        lambda size: work.attention(1, 8, 4, "fp32", kv_heads=size),
        lambda size: work.gather_gemv(8, 8, "bf16", chosen=size, experts=8),
        lambda size: work.cross_entropy(size, 8, "fp32"),
        lambda size: work.transformer_training("small", size, 8),
        lambda size: work.decoder_decode("llama3_1b", "bf16", size),
    ],
)
def test_sizes_below_nothing_are_refused(formula: Callable[[float], object]) -> None:
    formula(1)
    for size in (-64, float("nan")):
        with pytest.raises(ValueError, match=r"size=(-64\.0|nan): expected a number from 0"):
            formula(size)


def test_a_text_is_no_number() -> None:
    for wrong in ({"bytes_read": "3"}, {"flops": "1e9"}, {"flops": {"bf16": "1e9"}}, {"bytes_written": None}):
        with pytest.raises(
            TypeError, match=r"(bytes_read|flops|bytes_written)=.*: expected a number, not a (str|None)"
        ):
            Work(**wrong)
    assert Work(bytes_read=np.int64(3), flops=np.float32(2)).cost().bytes == 3


def test_formulas_are_those_of_the_program() -> None:
    cost = work.matmul(3, 5, 7, "fp32")
    assert cost.flops == {"fp32": 2 * 3 * 5 * 7}
    assert cost.bytes == 4 * (3 * 7 + 7 * 5 + 3 * 5)
    assert work.softmax(4, 8, "bf16").bytes == 2 * 2 * 4 * 8
    assert work.attention(16, 16, 8, "fp32", heads=2).total_flops > 0


# Operations, bytes read and bytes written, as the operators define them.
FORMULAS: list[tuple[Callable[[], Cost], float, float, float]] = [
    (lambda: work.matmul(2, 3, 5, "bf16"), 2 * 30, 2 * (10 + 15), 2 * 6),
    (lambda: work.gemv(4, 5, "fp32"), 2 * 20, 4 * (20 + 5), 4 * 4),
    (lambda: work.gemv(4, 5, "fp32", batch=3), 3 * 2 * 20, 4 * (20 + 15), 4 * 12),
    (lambda: work.gather_gemv(4, 5, "bf16", chosen=2, experts=8), 2 * 2 * 20, 2 * (2 * 20 + 5), 2 * 2 * 4),
    (lambda: work.layer_norm(6, 4, "bf16"), 8 * 24, 2 * 24 + 4 * 2 * 4, 2 * 24),
    (lambda: work.rms_norm(6, 4, "bf16"), 4 * 24, 2 * 24 + 4 * 4, 2 * 24),
    (lambda: work.softmax(2, 3, "fp32"), 5 * 6, 4 * 6, 4 * 6),
    (lambda: work.softmax(2, 3, "fp32", direction="backward"), 4 * 6, 2 * 4 * 6, 4 * 6),
    (lambda: work.gelu(4, "bf16"), 8 * 4, 2 * 4, 2 * 4),
    (lambda: work.gelu(4, "bf16", direction="backward"), 8 * 4, 2 * 2 * 4, 2 * 4),
    (lambda: work.silu_mul(4, "fp16"), 6 * 4, 2 * 2 * 4, 2 * 4),
    (lambda: work.rope(2, 3, 4, "bf16"), 3 * 24, 2 * 24 + 4 * 12, 2 * 24),
    (lambda: work.embedding(100, 3, 4, "fp32"), 0, 4 * 12 + 8 * 3, 4 * 12),
    (lambda: work.adamw(10), 14 * 10, 4 * 10, 0),
    (lambda: work.read(10), 0, 10, 0),
    (lambda: work.copy(10), 0, 10, 10),
]


@pytest.mark.parametrize(("formula", "flops", "read", "written"), FORMULAS)
def test_each_formula_takes_its_arguments_in_their_places(
    formula: Callable[[], Cost], flops: float, read: float, written: float
) -> None:
    cost = formula()
    assert (cost.total_flops, cost.bytes_read, cost.bytes_written) == (flops, read, written)


def test_formulas_of_models_take_their_arguments_in_their_places() -> None:
    assert work.llm_int8_linear(2, 3, 4, 1).flops == {"int8": 2 * 2 * 3 * 4, "bf16": 2 * 2 * 3 * 1}
    one, wide = (work.mlp_training(2, width, 4, "bf16").flops["bf16"] for width in (8, 16))
    assert wide == 4 * one == 4 * (4 + 4 + 3) * 2 * 2 * 8 * 8
    step, forward = (work.transformer_training("small", 1, 128, mode=mode).total_flops for mode in ("step", "forward"))
    assert 2.5 < step / forward < 4
    prompt, token = work.decoder_prefill("llama3_1b", "bf16", 16), work.decoder_decode("llama3_1b", "bf16", 16)
    assert 10 < prompt.total_flops / token.total_flops < 17
    assert set(work.__all__) - {"Work", "Counted", "of", "Cost"} <= {
        name for name in dir(work) if callable(getattr(work, name))
    }
    assert len(work.__all__) == 24


def test_products_of_a_module_are_counted() -> None:
    layer = torch.nn.Linear(7, 5)
    cost = work.of(layer, torch.empty(3, 7))
    assert cost.flops == {"fp32": 2 * 3 * 5 * 7}
    assert cost.bytes_read == 4 * (3 * 7 + 7 * 5 + 5)
    assert cost.bytes_written == 4 * 3 * 5


def test_backward_has_twice_the_products_and_writes_gradients() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.ReLU(), torch.nn.Linear(8, 8, bias=False))
    forward, both = work.of(module, torch.empty(4, 8)), work.of(module, torch.empty(4, 8), backward=True)
    products = 2 * 4 * 8 * 8
    assert forward.total_flops == 2 * products
    assert both.total_flops == 2 * products + 3 * products  # the first layer's input needs no gradient
    assert both.bytes_written == forward.bytes_written + 4 * 2 * 8 * 8


def test_function_and_precision() -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    operand = torch.empty(1, 2, 16, 8, dtype=torch.bfloat16)
    cost = work.of(attention, operand, operand, operand)
    assert cost.flops == {"bf16": 2 * 2 * (2 * 16 * 16 * 8)}
    assert work.of(attention, operand, operand, operand, dtype="int8").flops.keys() == {"int8"}
    assert work.of(torch.nn.Linear(8, 8, dtype=torch.float64), torch.empty(2, 8).double()).flops.keys() == {"fp64"}


def test_module_is_not_copied_or_changed() -> None:
    layer = torch.nn.Linear(4, 4)
    weight = layer.weight
    work.of(layer, torch.empty(2, 4), backward=True)
    assert layer.weight is weight and weight.grad is None and weight.device.type == "cpu"


def test_rows_of_a_table_are_read_once_gathered() -> None:
    table, indices = torch.empty(1000, 8), torch.zeros(3, dtype=torch.long)
    cost = work.of(torch.nn.functional.embedding, indices, table)
    assert (cost.bytes_read, cost.bytes_written) == (4 * 3 * 8 + 8 * 3, 4 * 3 * 8)
    program = work.embedding(1000, 3, 8, "fp32")
    assert (cost.bytes_read, cost.bytes_written) == (program.bytes_read, program.bytes_written)
    assert work.of(lambda table, indices: table[indices], table, indices).bytes_read == cost.bytes_read
    assert cost.not_counted == ()
    many = torch.zeros(5000, dtype=torch.long)
    assert work.of(torch.nn.functional.embedding, many, table).bytes_read == 4 * 8000 + 8 * 5000, "at most all of it"


class _Tied(torch.nn.Module):
    """Its table is also that of the last product."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(1000, 8)
        self.head = torch.nn.Linear(8, 1000, bias=False)
        self.head.weight = self.table.weight

    def forward(self, indices: Any) -> Any:
        return self.head(self.table(indices))


def test_a_table_that_a_product_reads_is_read_whole() -> None:
    cost = work.of(_Tied(), torch.zeros(3, dtype=torch.long))
    assert cost.bytes_read == 4 * 8000 + 8 * 3
    assert cost.flops == {"fp32": 2 * 3 * 8 * 1000}


def test_a_part_of_a_cache_is_read() -> None:
    cost = work.of(lambda cache, x: x @ cache[:, :4] + 0 * (x @ cache[:, :4]), torch.empty(8, 100), torch.empty(2, 8))
    assert cost.bytes_read == 4 * (8 * 4 + 2 * 8)


@pytest.mark.parametrize("backward", [False, True])
def test_masked_pairs_of_causal_attention_are_not_computed(backward: bool) -> None:
    """As in work.attention, whose softmax counts in fp32."""

    def attention(x: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    x = torch.empty(1, 2, 16, 8, dtype=torch.bfloat16, requires_grad=backward)
    cost = work.of(attention, x, backward=backward)
    forward = work.attention(16, 16, 8, "bf16", heads=2, kv_heads=2, causal=True).flops["bf16"]
    assert forward == 4 * 8 * 2 * (16 * 17 / 2)
    assert cost.flops == {"bf16": forward * (3 if backward else 1)}


def test_operators_without_a_formula_are_named() -> None:
    x = torch.empty(4, 4)
    assert work.of(lambda x: torch.fft.fft(x @ x), x).not_counted[0].startswith("aten::_fft")
    assert work.of(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU()), x).not_counted == ()
    alone = work.of(torch.nn.functional.gelu, x)
    assert alone.flops == {} and alone.not_counted == ("aten::gelu",)
    for total in (alone + work.read(8), work.read(8) + alone, alone.repeated(2)):
        assert isinstance(total, work.Counted) and total.not_counted == alone.not_counted
    assert (work.read(8) + alone).bytes_read == alone.bytes_read + 8
    row = roofbench.measure(torch.nn.functional.gelu, torch.zeros(4, 4), work=alone, roofs=False, max_samples=1)
    assert "work: not counted: aten::gelu" in row.notes


def test_products_of_vectors_are_counted() -> None:
    assert work.of(torch.dot, torch.empty(5), torch.empty(5)).flops == {"fp32": 10}
    assert work.of(torch.mv, torch.empty(5, 4), torch.empty(4)).flops == {"fp32": 40}
    cost = work.of(torch._int_mm, torch.empty(32, 16, dtype=torch.int8), torch.empty(16, 8, dtype=torch.int8))
    assert cost.total_flops == 2 * 32 * 16 * 8
