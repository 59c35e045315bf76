# SPDX-License-Identifier: Apache-2.0
"""--describe_checkpoint compared with transformers, with the loaded model, and for a model larger than any memory."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
import strange_folder
import tiny_checkpoint
from built_program import NO_ROOFS, Run


def described(run: Run, folder: Path) -> dict[str, Any]:
    done = run(f"--describe_checkpoint={folder}", "--benchmark_format=json", "--threads=1")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "sizes"),
    [
        ("Llama", {}),
        ("Llama", {"attention_bias": True}),
        ("Phi3", {"pad_token_id": 0}),
        ("Mistral", {"sliding_window": 8}),
        ("Mixtral", {"num_local_experts": 4}),
        ("Qwen2", {"tie_word_embeddings": True}),
        ("Qwen3", {"head_dim": 16}),
        ("Gemma2", {"head_dim": 16, "sliding_window": 8}),
    ],
)
def test_parameters_match_transformers_and_bytes_match_the_loaded_model(
    run: Run, tmp_path: Path, architecture: str, sizes: dict[str, Any]
) -> None:
    model = tiny_checkpoint.write(tmp_path, architecture, **sizes)
    said = described(run, tmp_path)
    assert said["parameters"] == model.num_parameters()
    assert said["window"] == sizes.get("sliding_window", 0)
    assert said["window_layers"] == {"Mistral": 2, "Gemma2": 1}.get(architecture, 0)
    assert said["output_norms"] == (architecture == "Gemma2")
    output_bias = "attention_bias" in sizes
    assert said["output_bias"] == output_bias
    assert (said["attention_bias"], said["head_norms"]) == (
        output_bias or architecture == "Qwen2",
        architecture == "Qwen3",
    )
    assert said["stored_bytes"] == 4 * model.num_parameters()
    assert sum(group["parameters"] for group in said["tensors"]) == model.num_parameters()
    formats = [row["precision"] for row in said["precisions"] if "unsupported" not in row]
    done = run(
        f"--checkpoint={tmp_path}",
        "--benchmark_filter=^complete/impl:eager/",
        "--axis=complete.impl=eager",
        f"--axis=complete.precision={','.join(formats)}",
        "--axis=complete.new=2",
        "--prompt_ids=1,2",
        "--benchmark_min_time=1x",
        *NO_ROOFS,
        "--check=off",
        "--benchmark_format=json",
    )
    assert done.returncode == 0, done.stderr
    predicted = {row["precision"]: row["weight_bytes"] for row in said["precisions"] if "weight_bytes" in row}
    # Without formats that this processor lacks arithmetic for.
    rows = json.loads(done.stdout)["benchmarks"]
    named = [(row["name"].partition("/precision:")[2].split("/")[0], row) for row in rows]
    loaded = {precision: row["model_bytes"] for precision, row in named if "model_bytes" in row}
    assert loaded == {name: predicted[name] for name in loaded}
    assert len(loaded) >= 4


def counts(said: dict[str, Any]) -> list[tuple[str, Any]]:
    """The numbers of a description but for its rates."""
    rows = [said, *said["tensors"], *said["precisions"]]
    numbers = [(name, value) for row in rows for name, value in row.items() if isinstance(value, int | float)]
    return [
        (name, value)
        for name, value in numbers
        if not name.endswith("_per_second") and name not in ("roof_read", "others_share")
    ]


def test_a_model_larger_than_memory_is_described(run: Run, tmp_path: Path) -> None:
    """Only the header is read: the weights are a hole in the file, of more than a hundred gigabytes."""
    width, hidden, vocab = 4096, 14336, 1 << 22
    sizes = {strange_folder.WIDTH: width, strange_folder.HIDDEN: hidden, strange_folder.VOCAB: vocab}
    header: dict[str, Any] = {}
    end = 0
    layers = 200
    for layer in range(layers):
        for name, shape in strange_folder.TENSORS.items():
            if layer > 0 and not name.startswith(strange_folder.LAYER):
                continue
            real = [sizes[size] for size in shape]
            count = real[0] * (real[1] if len(real) > 1 else 1)
            key = name.replace(strange_folder.LAYER, f"model.layers.{layer}.") + ".weight"
            header[key] = {"dtype": "BF16", "shape": real, "data_offsets": [end, end + 2 * count]}
            end += 2 * count
    text = json.dumps(header).encode()
    config = {
        "vocab_size": vocab,
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
    }
    (tmp_path / "config.json").write_text(json.dumps(strange_folder.CONFIG | config))
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    said = described(run, tmp_path)
    assert said["stored_bytes"] == end > 1 << 36
    assert not [name for name, value in counts(said) if not isinstance(value, int)]
    assert said["parameters"] == end / 2
    assert next(row for row in said["precisions"] if row["precision"] == "bf16")["weight_bytes"] == end
    (group,) = (group for group in said["tensors"] if group["name"] == "model.layers.*.mlp.down_proj.weight")
    assert (group["count"], group["shape"]) == (layers, [width, hidden])


def test_the_default_format_is_a_table(run: Run, tmp_path: Path) -> None:
    done = run(f"--describe_checkpoint={strange_folder.write(tmp_path)}")
    assert done.returncode == 0, done.stderr
    # Partly: a test before it kept some of the roofs.
    assert re.search("tokens/s: what the roof of this machine allows, (partly )?measured", done.stdout), done.stdout
    assert not re.search(r"\de[+]\d", done.stdout), "no exponents"
    assert "down_proj" in done.stdout


def test_no_roof_is_measured_where_none_is_wanted(run: Run, tmp_path: Path) -> None:
    question = (f"--describe_checkpoint={strange_folder.write(tmp_path)}", "--roofs=off")
    done = run(*question)
    assert done.returncode == 0, done.stderr
    assert "tokens/s: what the roof of this machine allows, with --roofs=off" in done.stdout
    said = json.loads(run(*question, "--benchmark_format=json").stdout)
    assert (said["roofs"], said["others_share"]) == ("off", None)
    assert said["roof_read"] is None
