# SPDX-License-Identifier: Apache-2.0
"""Our sampling keeps the tokens of transformers' processors, with the same probabilities, and draws accordingly."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from built_program import BIN
from scipy import stats
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds

VOCAB = 1000
DRAWS = 50_000
# temperature, top_k, top_p, min_p, repetition penalty; the value that does nothing among them.
Options = tuple[float, int, float, float, float]
TABLE: list[Options] = list(
    itertools.product((1.0, 0.6, 1.7), (0, 1, 40), (1.0, 0.9, 0.3), (0.0, 0.05, 0.5), (1.0, 1.3, 0.8))
)


def processors(options: Options) -> LogitsProcessorList:
    """The order in which GenerationMixin combines them."""
    temperature, top_k, top_p, min_p, penalty = options
    chosen = LogitsProcessorList()
    if penalty != 1:
        chosen.append(RepetitionPenaltyLogitsProcessor(penalty))
    if temperature != 1:
        chosen.append(TemperatureLogitsWarper(temperature))
    if top_k > 0:
        chosen.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        chosen.append(TopPLogitsWarper(top_p))
    if min_p > 0:
        chosen.append(MinPLogitsWarper(min_p))
    return chosen


Row = dict[int, tuple[float, int]]  # of a token: its probability, and how often it was drawn


def ours(logits: torch.Tensor, text: list[int], tmp_path: Path) -> list[Row]:
    path = tmp_path / "logits"
    path.write_bytes(logits.numpy().tobytes())
    lines = "".join(" ".join(map(str, (*options, *text))) + "\n" for options in TABLE)
    done = subprocess.run(
        [BIN / "sampled_tokens", path, str(DRAWS)], input=lines, capture_output=True, text=True, timeout=600, check=True
    )
    rows = [[one.split(":") for one in line.split()] for line in done.stdout.splitlines()]
    return [{int(token): (float(share), int(drawn)) for token, share, drawn in row} for row in rows]


def test_distributions_and_draws(tmp_path: Path) -> None:
    # Normal and distinct logits, in an order that is the same on any machine.
    order = np.random.default_rng(7).permutation(VOCAB)
    logits = torch.from_numpy((3 * stats.norm.ppf((order + 0.5) / VOCAB)).astype(np.float32))
    # Likely tokens have occurred too, some of them twice.
    text = [*logits.topk(12).indices[::3].tolist(), 5, 5, 900]
    rows = ours(logits, text, tmp_path)
    assert len(rows) == len(TABLE)
    supports = set()
    for options, row in zip(TABLE, rows, strict=True):
        # In fp64, in which sums keep away from a threshold by more than their rounding.
        left = processors(options)(torch.LongTensor([text]), logits.double().unsqueeze(0))[0].softmax(0)
        expected = {token: share for token, share in enumerate(left.tolist()) if share > 0}
        assert set(row) == set(expected), options
        supports.add(frozenset(expected))
        assert max(abs(row[token][0] - expected[token]) for token in expected) < 1e-6, options
        check_draws(row, options)
    assert len(supports) > 20, "other options, other tokens"


def check_draws(row: Row, options: Options) -> None:
    """The draws are the same in each run, by their seed, so that this never fails by chance."""
    share, drawn = np.array(list(row.values())).T
    assert drawn.sum() == DRAWS
    rare = share * DRAWS < 10  # together: the approximation wants some of each
    expected = np.append(share[~rare], share[rare].sum()) * DRAWS
    found = np.append(drawn[~rare], drawn[rare].sum())
    kept = expected > 0
    if kept.sum() > 1:
        distance = ((found - expected)[kept] ** 2 / expected[kept]).sum()
        assert distance < stats.chi2.ppf(1 - 1e-6, kept.sum() - 1), options
