# SPDX-License-Identifier: Apache-2.0
"""OpenVINO: optimum-intel's stateful export, run by an infer request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino

SETTINGS = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "bf16"}
# As many weights per scale as roofbench.
GROUP = 64


def convert(checkpoint: Path, bits: str, into: Path) -> None:
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig

    quantized = {
        "bf16": None,
        "int8": OVWeightQuantizationConfig(bits=8),
        "int4": OVWeightQuantizationConfig(bits=4, sym=True, group_size=GROUP, ratio=1.0, all_layers=True),
    }[bits]
    model = OVModelForCausalLM.from_pretrained(
        checkpoint, export=True, stateful=True, compile=False, load_in_8bit=False, quantization_config=quantized
    )
    model.save_pretrained(into)


def keep_last_logits(model: openvino.Model) -> None:
    """Restricts the head to the last token, as OpenVINO GenAI does."""
    from openvino import opset13

    head = model.output("logits").get_node().input_value(0).get_node()
    while head.get_type_name() == "Convert":
        head = head.input_value(0).get_node()
    if head.get_type_name() != "MatMul":
        raise SystemExit(f"the logits come from {head.get_type_name()}, expected MatMul")
    last = opset13.slice(head.input_value(0), np.array([-1]), np.array([2**31 - 1]), np.array([1]), np.array([1]))
    head.input(0).replace_source_output(last.output(0))
    model.validate_nodes_and_infer_types()


class OpenVino:
    def __init__(self, folder: Path, bits: str, threads: int, positions: int) -> None:
        core = openvino.Core()
        model = core.read_model(folder / "openvino_model.xml")
        keep_last_logits(model)
        compiled = core.compile_model(model, "CPU", SETTINGS | {"INFERENCE_NUM_THREADS": threads})
        self.request = compiled.create_infer_request()
        self.names = {name for port in compiled.inputs for name in port.get_names()}

    def prefill(self, prompt: list[int]) -> None:
        self.request.reset_state()
        self._forward(prompt, 0)

    def decode(self, prompt: list[int], tokens: int, done: Callable[[], object]) -> None:
        self.request.reset_state()
        token = self._forward(prompt, 0)
        for place in range(tokens):
            token = self._forward([token], len(prompt) + place)
            done()

    def _forward(self, ids: list[int], start: int) -> int:
        end = start + len(ids)
        given = {
            "input_ids": np.array([ids], np.int64),
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(start, end, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        found = self.request.infer({name: value for name, value in given.items() if name in self.names})
        return int(np.argmax(found["logits"][0, -1]))


load = OpenVino
