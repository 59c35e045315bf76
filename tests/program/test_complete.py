# SPDX-License-Identifier: Apache-2.0
"""A text goes through a checkpoint that transformers wrote: tools/tokens, roofbench, tools/tokens."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoint
from built_program import NO_ROOFS, ROOT, Run

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds

NEW = 24


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("checkpoint")
    return folder, tiny_checkpoint.write(folder)


def greedy(model: Any, prompt: list[int], tokens: int) -> list[int]:
    import torch

    ids = torch.tensor([prompt])
    with torch.no_grad():
        for _ in range(tokens):
            best = model(ids).logits[:, -1].topk(2, -1)
            assert best.values.diff(dim=-1).abs().min().item() > 1e-4, "a tie, which rounding decides"
            ids = torch.cat([ids, best.indices[:, :1]], 1)
    return [int(i) for i in ids[0, len(prompt) :]]


def tokens(*arguments: str, text: str = "") -> str:
    command = [str(ROOT / "tools" / "tokens"), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=600, check=True).stdout


def flags(folder: Path, out: Path, new: int = NEW) -> tuple[str, ...]:
    return (
        f"--checkpoint={folder}",
        "--benchmark_filter=^complete/",
        "--axis=complete.precision=fp32",
        f"--axis=complete.new={new}",
        "--benchmark_min_time=1x",
        "--benchmark_format=json",
        *NO_ROOFS,
        f"--tokens_out={out}",
    )


def counters(stdout: str) -> dict[str, Any]:
    (case,) = json.loads(stdout)["benchmarks"]
    return dict(case)


def texts(out: Path) -> list[list[int]]:
    """The new tokens of each text."""
    return [[int(i) for i in line.split("\t")[-1].split(",")] for line in out.read_text().splitlines()]


def test_round_trip(checkpoint: tuple[Path, Any], tmp_path: Path, run: Run) -> None:
    folder, model = checkpoint
    prompt = tmp_path / "prompt"
    out = tmp_path / "out"
    prompt.write_text(tokens("encode", str(folder), "w5 w17 w80"))
    done = run(*flags(folder, out), f"--prompt_ids={prompt}", "--axis=complete.impl=native,eager")
    assert done.returncode == 0, done.stderr
    expected = greedy(model, [5, 17, 80], NEW)
    assert len(set(expected)) > 4, "a loop of a few tokens proves little"
    said = " ".join(f"w{i}" for i in expected)
    name = f"precision:fp32/new:{NEW}"
    assert tokens("decode", str(folder), text=out.read_text()) == (
        f"complete/impl:eager/{name}\t{said}\ncomplete/{name}\t{said}\n"
    )


def test_head_and_stop_ids_match_transformers(checkpoint: tuple[Path, Any], tmp_path: Path, run: Run) -> None:
    """A separate head though the configuration ties it, and a stop id in generation_config.json."""
    import transformers

    shutil.copytree(checkpoint[0], tmp_path / "tied")
    config = json.loads((tmp_path / "tied" / "config.json").read_text())
    (tmp_path / "tied" / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    model: Any = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "tied")
    model.eval()
    expected = greedy(model, [5, 17, 80], NEW)
    stop = expected[9]
    (tmp_path / "tied" / "generation_config.json").write_text(json.dumps({"eos_token_id": [stop]}))
    done = run(*flags(tmp_path / "tied", tmp_path / "out"), "--prompt_ids=5,17,80")
    assert done.returncode == 0, done.stderr
    assert "lm_head.weight holds other values; they are used" in done.stderr
    assert texts(tmp_path / "out") == [expected[: expected.index(stop) + 1]]


def test_a_stop_id_ends_the_text_and_the_counting(checkpoint: tuple[Path, Any], tmp_path: Path, run: Run) -> None:
    folder, model = checkpoint
    expected = greedy(model, [5, 17, 80], NEW)
    stop = expected[7]
    length = expected.index(stop) + 1
    done = run(*flags(folder, tmp_path / "out"), "--prompt_ids=5,17,80", f"--stop_ids={stop}")
    assert done.returncode == 0, done.stderr
    assert texts(tmp_path / "out") == [expected[:length]]
    # The counted work equals that of a run with this fixed number of tokens.
    stopped = counters(done.stdout)
    short = counters(run(*flags(folder, tmp_path / "short", length), "--prompt_ids=5,17,80").stdout)
    for case in (stopped, short):
        assert case["tokens/s"] * case["decode_ms"] / 1e3 == pytest.approx(length - 1)
        # One sample, so that each median is the figure itself.
        assert case["ttft_ms"] == case["prefill_ms"]
        assert case["ttft_ms"] + case["decode_ms"] == pytest.approx(case["real_time"] / 1e3, rel=1e-6)
        # Where enough gaps carry them.
        assert 0 < case["itl_ms"] <= case.get("itl_p95_ms", math.inf) <= case.get("itl_p99_ms", math.inf)
        assert ("itl_p95_ms" in case) == ("itl_p95_ci" in case)
    work = [case["bytes/s"] * case["real_time"] for case in (stopped, short)]
    assert work[0] == pytest.approx(work[1])


def test_a_long_prompt_is_truncated_at_its_beginning_with_a_note(
    checkpoint: tuple[Path, Any], tmp_path: Path, run: Run
) -> None:
    folder, model = checkpoint
    prompt = [1 + i * i % 89 for i in range(300)]  # of a model that takes 256
    left = prompt[-(256 - NEW) :]
    stop = "--stop_ids=96"  # nothing is that token
    done = run(*flags(folder, tmp_path / "out"), "--prompt_ids=5,17,80;" + ",".join(map(str, prompt)), stop)
    assert done.returncode == 0, done.stderr
    missing = len(prompt) - len(left)
    assert f"--prompt_ids: the first {missing} tokens of prompt 2 are left out: the checkpoint takes 256" in done.stderr
    assert counters(done.stdout)["truncated_tokens"] == missing
    assert texts(tmp_path / "out")[1] == greedy(model, left, NEW)
    full = run(*flags(folder, tmp_path / "out", 256), "--prompt_ids=5")
    assert "256 new ones leave no room for a prompt" in full.stdout


def test_given_sampling_draws_by_its_flags(checkpoint: tuple[Path, Any], tmp_path: Path, run: Run) -> None:
    folder, model = checkpoint

    def drawn(*sampling: str) -> list[int]:
        done = run(
            *flags(folder, tmp_path / "out"), "--prompt_ids=5,17,80", "--axis=complete.sampling=given", *sampling
        )
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "out").read_text().startswith(f"complete/precision:fp32/new:{NEW}/sampling:given\t")
        return texts(tmp_path / "out")[0]

    hot = drawn("--temperature=3", "--sampling_seed=1")
    assert hot == drawn("--temperature=3", "--sampling_seed=1")
    assert hot != drawn("--temperature=3", "--sampling_seed=2")
    likeliest = greedy(model, [5, 17, 80], NEW)
    assert hot != likeliest
    assert drawn("--temperature=3", "--top_k=1") == likeliest
    assert drawn("--temperature=3", "--top_p=1e-9", "--min_p=1") == likeliest
    said = [5, 17, 80, *drawn("--top_k=1", "--repetition_penalty=1e6")]
    assert len(set(said)) == len(said)
