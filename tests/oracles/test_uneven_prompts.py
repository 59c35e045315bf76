# SPDX-License-Identifier: Apache-2.0
"""`complete` continues a batch of uneven prompts as transformers does, which pads them on the left and masks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "bin" / "roofbench"

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds

NEW = 64
LENGTHS = (3, 17, 1, 9, 26)  # some within mistral's window, some beyond it
IMPLEMENTATIONS = ("eager", "native")


def prompts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(3, 96, (length,), generator=generator).tolist() for length in LENGTHS]


def theirs(model: Any, texts: list[list[int]], stop: int | None = None) -> list[list[int]]:
    """New tokens of each, with the stop id that ended it."""
    longest = max(map(len, texts))
    ids = torch.tensor([[0] * (longest - len(text)) + text for text in texts])
    mask = torch.tensor([[0] * (longest - len(text)) + [1] * len(text) for text in texts])
    model.generation_config.eos_token_id = stop
    with torch.no_grad():
        found = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=NEW,
            do_sample=False,
            eos_token_id=stop,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_logits=True,
        )
    new = found.sequences[:, longest:].tolist()
    made = [tokens[: tokens.index(stop) + 1] if stop in tokens else tokens for tokens in new]
    for step, logits in enumerate(found.logits):
        gaps = logits.topk(2, -1).values.diff(dim=-1).abs()
        live = [i for i, tokens in enumerate(made) if step < len(tokens)]
        assert gaps[live].min() > 1e-4, "a tie, which rounding decides"
    return made


def ours(
    folder: Path, texts: list[list[int]], stop: int, precision: str = "fp32", more: tuple[str, ...] = ()
) -> dict[str, list[list[int]]]:
    """New tokens of each, by implementation."""
    out = folder / "tokens"
    command = [
        str(PROGRAM),
        f"--checkpoint={folder}",
        "--benchmark_filter=^complete/",
        f"--axis=complete.precision={precision}",
        f"--axis=complete.new={NEW}",
        f"--axis=complete.impl={','.join(IMPLEMENTATIONS)}",
        "--benchmark_min_time=1x",
        "--warmup_iters=0",
        "--prompt_ids=" + ";".join(",".join(map(str, text)) for text in texts),
        f"--stop_ids={stop}",
        f"--tokens_out={out}",
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    chosen: dict[str, list[list[int]]] = {name: [] for name in IMPLEMENTATIONS}
    for line in out.read_text().splitlines():
        case, *_, ids = line.split("\t")
        chosen["eager" if "impl:eager" in case else "native"].append([int(i) for i in ids.split(",")])
    return chosen


@pytest.mark.parametrize("name", list(tiny_models.MODELS))
def test_tokens_of_uneven_prompts_are_identical(name: str, tmp_path: Path) -> None:
    model = tiny_models.write(name, tmp_path)
    texts = prompts()
    free = theirs(model, texts)
    assert len({tuple(tokens) for tokens in free}) == len(texts)
    assert all(len(set(tokens)) > 8 for tokens in free), "a loop of a few tokens proves little"
    for found in ours(tmp_path, texts, stop=model.config.vocab_size).values():  # nothing is that token
        assert found == free
    # A token that ends some sequences and lets others continue, the first of them as early as possible.
    firsts = {
        token: [tokens.index(token) for tokens in free if token in tokens] for token in range(model.config.vocab_size)
    }
    stop = min((min(ends), token) for token, ends in firsts.items() if 0 < len(ends) < len(texts) and min(ends) > 2)[1]
    ended = theirs(model, texts, stop)
    assert min(map(len, ended)) < NEW // 2
    assert max(map(len, ended)) == NEW
    for found in ours(tmp_path, texts, stop).values():
        assert found == ended
