# SPDX-License-Identifier: Apache-2.0
"""Every kernel of ours runs inside of a range with its name, and the checker notices one that does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kernel_ranges import MODELS, Models, violations

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / MODELS, tmp_path / MODELS)
    return tmp_path


def test_every_kernel_is_named() -> None:
    assert violations(ROOT) == []


def test_it_finds_the_kernels() -> None:
    """All that models use, by the header that declares each."""
    found = " ".join(source.text[call.start() : call.start() + 60] for source, call in Models(ROOT).kernels)
    for kernel in ("AdamW", "CrossEntropy", "DecodeAttention", "Gelu", "GeluGradient", "GeluTanhMul", "Gemv",
                   "Int4Product", "LlmInt8Product", "NormGradient", "RmsNorm", "Rope", "SiluMul", "SiluMulGradient",
                   "SoftCap", "Transpose"):  # fmt: skip
        assert f"kernels::{kernel}" in found
    assert found.count("Run(work, ") == 2  # of attention, forward and backward
    for call in ("made.Select", "made.Quantise", "activations_.Select", "activations_.Quantise", "UnpackInt4"):
        assert f"{call}(" in found


# A file of models, what to leave out or put in its place, and how many kernels are nameless without it.
PLANTED = [
    ("training/optimizer.cc", 'const observe::Range kernel("roofbench::adamw");', "", 1),
    ("training/native_layers.cc", 'const observe::Range kernel("roofbench::attention_gradient");', "", 1),
    ("training/native_layers.cc", 'const observe::Range kernel("roofbench::rope");', "", 1),
    ("training/native_layers.cc", 'std::optional<observe::Range> kernel("roofbench::rms_norm");', "", 1),
    ("training/native_layers.cc", '"roofbench::gelu"', '"gelu"', 1),
    ("training/native_layers.cc", '("roofbench::cross_entropy");', '("roofbench::cross_entropy"); kernel.reset();', 1),
    ("native/native_decoder.cc", 'const PartRange range(worker, "roofbench::decode_attention");', "", 3),
    ("native/native_step.cc", 'const PartRange range(worker, "roofbench::rms_norm");', "", 1),
    ("native/native_decoder.cc", 'Product(worker, "roofbench::linear head"', 'Product(worker, "head"', 5),
    ("native/native_decoder.cc", 'const PartRange range(worker, "roofbench::linear gate_up");', "", 7),
    ("decoding/stored_matrix.cc", 'const observe::Range kernel("roofbench::unpack_int4");', "", 1),
    ("decoding/llm_int8.cc", 'observe::Range kernel("roofbench::llm_int8 statistics");', "", 2),
    ("decoding/eager_decoder.cc", 'const observe::Range kernel("roofbench::llm_int8 product");', "", 2),
]


@pytest.mark.parametrize(("file", "old", "new", "nameless"), PLANTED)
def test_a_range_that_is_gone(tree: Path, file: str, old: str, new: str, nameless: int) -> None:
    path = tree / MODELS / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    found = violations(tree)
    assert len(found) == nameless, found
    assert all(line.endswith("a kernel of ours runs outside of a range with its name") for line in found)
