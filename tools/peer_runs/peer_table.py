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
    forms: dict[str, str] = field(default_factory=dict)  # what the module calls a precision, where it is not its name

    def form(self, bits: str) -> str:
        return self.forms.get(bits, bits)

    def settings_in(self, bits: str) -> dict[str, str]:
        return ({"form": self.forms[bits]} if bits in self.forms else {}) | self.settings


# A model in a file of llama.cpp's; its attention is the flash one where it has it.
LLAMA_CPP = {"built": "GGML_NATIVE", "weights": "read, not mapped", "attention": "auto", "cache": "fp16"}


PEERS = (
    Peer("transformers", "eager", ("bf16",), ("transformers", "torch"), False, {"attention": "sdpa"}),
    Peer(
        "torch.compile",
        "compiled",
        ("bf16",),
        ("transformers", "torch"),
        False,
        {"weights": "frozen", "cache": "static", "mode": "max-autotune-no-cudagraphs"},
        {"bf16": "inductor"},
    ),
    Peer(
        "zentorch",
        "compiled",
        ("bf16",),
        ("zentorch", "transformers", "torch"),
        False,
        {"weights": "frozen", "cache": "static"},
        {"bf16": "zentorch"},
    ),
    Peer(
        "llama.cpp",
        "llama_cpp_server",
        ("bf16", "int8", "int4"),
        ("llama-cpp-python", "gguf"),
        True,
        LLAMA_CPP | {"int4": "pure, head too"},
        {"bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"},
    ),
    Peer(
        "llama.cpp-K",
        "llama_cpp_server",
        ("int4",),
        ("llama-cpp-python", "gguf"),
        True,
        LLAMA_CPP,
        {"int4": "Q4_K_M"},
    ),
    Peer(
        "onnxruntime-genai",
        "genai_server",
        ("int8", "int4"),
        ("onnxruntime-genai", "onnxruntime", "onnx", "onnx-ir"),
        True,
        {"blocks": "64", "accuracy_level": "4", "arithmetic": "fp32, products int8"},
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
