# SPDX-License-Identifier: Apache-2.0
"""The model of lib/models/training/transformer_model.h again, in PyTorch: the oracle of its numbers and its counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    d_model: int
    d_ff: int
    layers: int
    heads: int
    vocab: int
    context: int


@cache
def rotations(positions: int, half: int, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [positions, half] of theta 10 000."""
    exponents = torch.arange(half, dtype=torch.float64) / half
    angles = torch.arange(positions, dtype=torch.float64).outer(10000.0**-exponents).to(device)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: torch.Tensor) -> torch.Tensor:
    """RoPE: pair i is (x[i], x[i + half])."""
    half = x.shape[-1] // 2
    cosines, sines = rotations(x.shape[-2], half, x.dtype, x.device)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cosines - b * sines, b * cosines + a * sines), dim=-1)


class Block(nn.Module):
    def __init__(self, shape: Shape, naive: bool) -> None:
        super().__init__()
        self.heads = shape.heads
        self.naive = naive
        self.attention_norm = nn.RMSNorm(shape.d_model, eps=1e-5)
        self.query, self.key, self.value, self.output = (
            nn.Linear(shape.d_model, shape.d_model, bias=False) for _ in range(4)
        )
        self.feed_forward_norm = nn.RMSNorm(shape.d_model, eps=1e-5)
        self.gate, self.up = (nn.Linear(shape.d_model, shape.d_ff, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.d_ff, shape.d_model, bias=False)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        q, k = rotate(q), rotate(k)
        if self.naive:
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
            future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            attended = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        else:
            attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        attended = attended.transpose(1, 2).flatten(-2)
        return functional.linear(attended, self.output.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.attention_norm(x))
        inner = self.feed_forward_norm(x)
        gated = functional.silu(self.gate(inner)) * self.up(inner)
        return x + functional.linear(gated, self.down.weight)


class Transformer(nn.Module):
    def __init__(self, shape: Shape, naive: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.d_model)
        self.blocks = nn.ModuleList(Block(shape, naive) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.d_model, eps=1e-5)
        self.head = nn.Linear(shape.d_model, shape.vocab, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.head.weight)

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())
