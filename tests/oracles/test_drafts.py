# SPDX-License-Identifier: Apache-2.0
"""`complete` with a draft writes the model's own text, in as many readings as transformers' assisted generation."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from test_uneven_prompts import IMPLEMENTATIONS, NEW, PROGRAM, theirs

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds

PROMPT = [5, 17, 80, 33, 9, 41, 7]
GUESSES = 4


def noisy(model: Any, noise: float, folder: Path) -> Any:
    """A draft that is sometimes right."""
    draft = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in draft.named_parameters():
        if "norm" not in name:
            parameter.data += noise * parameter.data.std() * torch.randn(parameter.shape, generator=generator)
    draft.save_pretrained(folder)
    return draft


def readings(model: Any, draft: Any) -> tuple[list[int], int]:
    """New tokens of assisted generation, and the number of the model's forward passes."""
    draft.generation_config.update(
        num_assistant_tokens=GUESSES,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
        eos_token_id=None,
    )
    model.generation_config.eos_token_id = None
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    hook = model.register_forward_hook(count)
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        found = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=NEW,
            do_sample=False,
            assistant_model=draft,
            pad_token_id=0,
        )
    hook.remove()
    return found[0, len(PROMPT) :].tolist(), calls


def ours(folder: Path, *more: str) -> dict[str, tuple[list[int], dict[str, Any]]]:
    """New tokens and counters, by implementation."""
    out = folder / "tokens"
    command = [
        str(PROGRAM),
        f"--checkpoint={folder}",
        "--benchmark_filter=^complete/",
        "--axis=complete.precision=fp32",
        f"--axis=complete.new={NEW}",
        f"--axis=complete.impl={','.join(IMPLEMENTATIONS)}",
        f"--axis=complete.guesses={GUESSES}",
        "--benchmark_min_time=1x",
        "--benchmark_format=json",
        "--warmup_iters=0",
        "--prompt_ids=" + ",".join(map(str, PROMPT)),
        f"--tokens_out={out}",
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(line.split("\t") for line in out.read_text().splitlines())
    found = {}
    for case in json.loads(done.stdout)["benchmarks"]:
        (ids,) = (ids for name, ids in said.items() if case["name"].startswith(name))
        found["eager" if "impl:eager" in case["name"] else "native"] = ([int(i) for i in ids.split(",")], case)
    return found


def test_readings_are_those_of_assisted_generation(tmp_path: Path) -> None:
    model = tiny_models.write("grouped", tmp_path)
    stop = f"--stop_ids={model.config.vocab_size}"  # nothing is that token
    (expected,) = theirs(model, [PROMPT])
    for noise in (0.05, 0.3):
        draft = noisy(model, noise, tmp_path / "draft")
        text, calls = readings(model, draft)
        assert text == expected
        for impl, (ids, case) in ours(
            tmp_path, stop, f"--draft_checkpoint={tmp_path / 'draft'}", "--axis=complete.draft=fp32"
        ).items():
            assert ids == expected, impl
            assert case["agreed_tokens"] == NEW
            # Their first reading has the prompt and guesses in it; ours reads the prompt alone.
            passes = (NEW - 1) / case["tokens_per_pass"]
            assert passes == pytest.approx(round(passes))
            assert abs(passes - calls) <= 1, (passes, calls)
            assert 0 < case["acceptance"] < 1
            assert case["pass_ms"] > 0
            assert case["speedup"] > 0


# With a window, and a mixture.
@pytest.mark.parametrize("name", ["mistral", "mixtral"])
def test_a_checkpoint_guesses_for_itself(name: str, tmp_path: Path) -> None:
    model = tiny_models.write(name, tmp_path)
    (free,) = theirs(model, [PROMPT])
    stop = free[NEW // 2]
    (expected,) = theirs(model, [PROMPT], stop)
    for precision in ("fp32", "int8"):
        for impl, (ids, case) in ours(tmp_path, f"--stop_ids={stop}", f"--axis=complete.draft={precision}").items():
            assert ids == expected, (impl, precision)
            assert case["agreed_tokens"] == len(expected)
            assert case["acceptance"] == 1 if precision == "fp32" else 0 < case["acceptance"] <= 1


REFUSED = {
    ("--axis=complete.beams=2", "--axis=complete.draft=int8"): "sampling:greedy and beams:1 take a draft",
    ("--axis=complete.sampling=top_k", "--axis=complete.draft=int8"): "sampling:greedy and beams:1 take a draft",
    ("--axis=complete.precision=llm_int8", "--axis=complete.draft=int8"): "guesses would change the text",
    ("--prompt_ids=3,4;5", "--axis=complete.draft=int8"): "give a single one",
}


def test_what_a_draft_is_not_for_is_refused(tmp_path: Path) -> None:
    tiny_models.write("grouped", tmp_path)
    tiny_models.write("qwen2", tmp_path / "other")
    refused = REFUSED | {
        ("--axis=complete.draft=fp32", f"--draft_checkpoint={tmp_path / 'other'}"): "take one of the same tokenizer",
        (
            "--axis=complete.draft=fp32",
            f"--draft_checkpoint={tmp_path / 'none'}",
        ): f"--draft_checkpoint={tmp_path / 'none'}: ",
    }
    for more, why in refused.items():
        command = [str(PROGRAM), f"--checkpoint={tmp_path}", "--benchmark_filter=^complete/", "--prompt_ids=3,4", *more]
        done = subprocess.run(
            [*command, "--axis=complete.new=4"], capture_output=True, text=True, timeout=600, check=False
        )
        assert why in " ".join((done.stdout + done.stderr).split()), more
