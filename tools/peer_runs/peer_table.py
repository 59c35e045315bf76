# SPDX-License-Identifier: Apache-2.0
"""The engines that decode and prefill are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Peer:
    name: str
    module: str  # of peer_runs.servers
    bits: tuple[str, ...]  # precisions of roofbench that it is compared with
    packages: tuple[str, ...]  # required; reported with their versions
    settings: dict[str, str] = field(default_factory=dict)
    forms: dict[str, str] = field(default_factory=dict)  # the module's names of precisions, where they differ
    converts: bool = True  # needs its own file format

    def form(self, bits: str) -> str:
        return self.forms.get(bits, bits)

    def settings_in(self, bits: str) -> dict[str, str]:
        return ({"form": self.forms[bits]} if bits in self.forms else {}) | self.settings


BF16 = ("bf16",)
FROZEN = {"weights": "frozen", "cache": "static"}
GGUF = ("llama-cpp-python", "gguf")
LLAMA_CPP = {"built": "GGML_NATIVE", "weights": "read, not mapped", "attention": "auto", "cache": "fp16"}
LLAMA_CPP_FORMS = {"bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
OPENVINO = {"int4": "groups of 64, symmetric, head too", "logits": "last token"}

PEERS = (
    Peer("transformers", "pytorch", BF16, ("transformers", "torch"), {"attention": "sdpa"}, converts=False),
    Peer(
        "torch.compile",
        "pytorch",
        BF16,
        ("transformers", "torch"),
        FROZEN | {"mode": "max-autotune-no-cudagraphs"},
        {"bf16": "inductor"},
        converts=False,
    ),
    Peer(
        "zentorch",
        "pytorch",
        BF16,
        ("zentorch", "transformers", "torch"),
        FROZEN,
        {"bf16": "zentorch"},
        converts=False,
    ),
    Peer(
        "llama.cpp",
        "llama_cpp_server",
        ("bf16", "int8", "int4"),
        GGUF,
        LLAMA_CPP | {"int4": "pure, head too"},
        LLAMA_CPP_FORMS,
    ),
    Peer("llama.cpp-K", "llama_cpp_server", ("int4",), GGUF, LLAMA_CPP, {"int4": "Q4_K_M"}),
    Peer(
        "onnxruntime-genai",
        "genai_server",
        ("int8", "int4"),
        ("onnxruntime-genai", "onnxruntime", "onnx", "onnx-ir"),
        {"blocks": "64", "accuracy_level": "4", "arithmetic": "fp32, products int8"},
    ),
    Peer(
        "openvino",
        "openvino_server",
        ("bf16", "int8", "int4"),
        ("openvino", "optimum-intel", "nncf"),
        {"hint": "latency", "arithmetic": "bf16"} | OPENVINO,
    ),
    Peer("ctranslate2", "ctranslate2_server", ("int8",), ("ctranslate2",), {"compute": "int8", "prompt": "whole"}),
)
