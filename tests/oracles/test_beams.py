# SPDX-License-Identifier: Apache-2.0
"""`complete` with beams finds the text that transformers' beam search finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from test_uneven_prompts import NEW, ours

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds

PROMPT = [5, 17, 80, 33, 9, 41, 7]


def theirs(model: Any, beams: int, stop: int | None) -> list[int]:
    model.generation_config.eos_token_id = stop
    with torch.no_grad():
        found = model.generate(
            torch.tensor([PROMPT]),
            attention_mask=torch.ones(1, len(PROMPT), dtype=torch.long),
            max_new_tokens=NEW,
            do_sample=False,
            num_beams=beams,
            eos_token_id=stop,
            pad_token_id=0,
        )
    new: list[int] = found[0, len(PROMPT) :].tolist()
    return new[: new.index(stop) + 1] if stop in new else new


# With the place in the best text of a token that then ends texts on the way to it; None: none does.
@pytest.mark.parametrize(("name", "searches"), [("grouped", {2: 4, 5: None}), ("mistral", {5: NEW // 2})])
def test_the_best_text_is_transformers_own(name: str, searches: dict[int, int | None], tmp_path: Path) -> None:
    model = tiny_models.write(name, tmp_path)
    greedy = theirs(model, 1, None)
    differ = 0
    for beams, place in searches.items():
        expected = theirs(model, beams, None)
        stop = model.config.vocab_size  # nothing is that token
        if place is not None:
            stop = expected[place]
            expected = theirs(model, beams, stop)
        differ += expected != greedy[: len(expected)]
        for impl, found in ours(tmp_path, [PROMPT], stop, more=(f"--axis=complete.beams={beams}",)).items():
            assert found == [expected], (beams, impl)
    assert differ, "a search that finds what is likeliest at every step proves little"
