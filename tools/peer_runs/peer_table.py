# SPDX-License-Identifier: Apache-2.0
"""Whom decode and prefill are held against: a row each."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Peer:
    name: str
    module: str  # of peer_runs.servers: what converts for it and runs it
    bits: tuple[str, ...]  # precisions of ours that it is held against
    packages: tuple[str, ...]  # whose versions stand beside its figures; without them it cannot run
    converts: bool  # has a form of the checkpoint of its own
    settings: dict[str, str] = field(default_factory=dict)


PEERS = (
    Peer("transformers", "eager", ("bf16",), ("transformers", "torch"), False, {"attention": "sdpa"}),
    Peer(
        "torch.compile",
        "compiled",
        ("bf16",),
        ("transformers", "torch"),
        False,
        {"weights": "frozen", "cache": "static", "mode": "max-autotune-no-cudagraphs"},
    ),
    Peer(
        "openvino",
        "openvino_server",
        ("bf16", "int8", "int4"),
        ("openvino", "optimum-intel", "nncf"),
        True,
        {"hint": "latency", "arithmetic": "bf16", "int4": "groups of 64, symmetric, head too", "logits": "last token"},
    ),
    Peer(
        "ctranslate2", "ctranslate2_server", ("int8",), ("ctranslate2",), True, {"compute": "int8", "prompt": "whole"}
    ),
)
