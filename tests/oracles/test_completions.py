# SPDX-License-Identifier: Apache-2.0
"""`complete` writes what transformers generates: from ragged prompts, which transformers pads on the left and masks,
with beams, and with the drafts of assisted generation, in as many passes."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from built_program import NO_ROOFS, PROGRAM

pytestmark = pytest.mark.slow  # importing torch and transformers takes seconds

NEW = 64
IMPLEMENTATIONS = ("eager", "native")
PROMPT = [5, 17, 80, 33, 9, 41, 7]


def generated(model: Any, texts: list[list[int]], stop: int | None = None, **more: Any) -> tuple[list[list[int]], Any]:
    """New tokens of each text, with the stop id that ended it, and what `generate` returns."""
    longest = max(map(len, texts))
    model.generation_config.eos_token_id = stop
    with torch.no_grad():
        found = model.generate(
            torch.tensor([[0] * (longest - len(text)) + text for text in texts]),
            attention_mask=torch.tensor([[0] * (longest - len(text)) + [1] * len(text) for text in texts]),
            max_new_tokens=NEW,
            do_sample=False,
            eos_token_id=stop,
            pad_token_id=0,
            return_dict_in_generate=True,
            **more,
        )
    new = found.sequences[:, longest:].tolist()
    return [tokens[: tokens.index(stop) + 1] if stop in tokens else tokens for tokens in new], found


def greedy(model: Any, texts: list[list[int]], stop: int | None = None) -> list[list[int]]:
    made, found = generated(model, texts, stop, output_logits=True)
    for step, logits in enumerate(found.logits):
        gaps = logits.topk(2, -1).values.diff(dim=-1).abs()
        live = [i for i, tokens in enumerate(made) if step < len(tokens)]
        assert gaps[live].min() > 1e-4, "a tie, which rounding decides"
    return made


def complete(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    quick = ("--benchmark_min_time=1x", "--warmup_iters=0", *NO_ROOFS, "--benchmark_format=json")
    command: list[str | Path] = [PROGRAM, f"--checkpoint={folder}", "--benchmark_filter=^complete/", *quick, *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def ours(
    folder: Path, texts: list[list[int]], stop: int, *more: str
) -> dict[str, tuple[list[list[int]], dict[str, Any]]]:
    """New tokens of each text, and the counters, by implementation."""
    axes = {"precision": "fp32", "new": NEW, "impl": ",".join(IMPLEMENTATIONS)}
    prompts = "--prompt_ids=" + ";".join(",".join(map(str, text)) for text in texts)
    out = folder / "tokens"
    flags = [f"--axis=complete.{axis}={value}" for axis, value in axes.items()]
    done = complete(folder, *flags, prompts, f"--stop_ids={stop}", f"--tokens_out={out}", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, tuple[list[list[int]], dict[str, Any]]] = {
        "eager" if "impl:eager" in case["name"] else "native": ([], case)
        for case in json.loads(done.stdout)["benchmarks"]
    }
    for line in out.read_text().splitlines():
        case, *_, ids = line.split("\t")
        found["eager" if "impl:eager" in case else "native"][0].append([int(i) for i in ids.split(",")])
    assert set(found) == set(IMPLEMENTATIONS)
    return found


@pytest.mark.parametrize("name", tiny_models.MODELS)
def test_tokens_of_ragged_prompts_are_identical(name: str, tmp_path: Path) -> None:
    model = tiny_models.write(name, tmp_path)
    lengths = (3, 17, 1, 9, 26)  # some within mistral's window, some beyond it
    generator = torch.Generator().manual_seed(7)
    texts = [torch.randint(3, 96, (length,), generator=generator).tolist() for length in lengths]
    free = greedy(model, texts)
    assert len({tuple(tokens) for tokens in free}) == len(texts)
    assert all(len(set(tokens)) > 8 for tokens in free), "a loop of a few tokens proves little"
    vocab = model.config.vocab_size
    for found, _ in ours(tmp_path, texts, vocab).values():  # nothing is that token
        assert found == free
    # A token that ends some sequences and lets others continue, the first of them as early as possible.
    firsts = {token: [tokens.index(token) for tokens in free if token in tokens] for token in range(vocab)}
    stop = min((min(ends), token) for token, ends in firsts.items() if 0 < len(ends) < len(texts) and min(ends) > 2)[1]
    ended = greedy(model, texts, stop)
    assert min(map(len, ended)) < NEW // 2
    assert max(map(len, ended)) == NEW
    for found, case in ours(tmp_path, texts, stop).values():
        assert found == ended
        ends = [len(tokens) for tokens in ended if stop in tokens]
        assert (case["sequences"], case["sequences_ended"], case["truncated_tokens"]) == (len(texts), len(ends), 0)
        assert (case["first_end_tokens"], case["last_end_tokens"]) == (min(ends), max(ends))
        # Real tokens alone, without those that a padded batch would have.
        made = sum(map(len, ended))
        assert case["tokens/s"] * case["decode_ms"] / 1e3 == pytest.approx(made - len(texts))
        assert case["prefill_tokens/s"] * case["ttft_ms"] / 1e3 == pytest.approx(sum(lengths))
        assert case["e2e_tokens/s"] * case["real_time"] / 1e6 == pytest.approx(made)
    said = [line.split("\t")[1] for line in (tmp_path / "tokens").read_text().splitlines()]
    assert said[: len(texts)] == [
        f"prompt {i + 1}: {len(tokens)} tokens, {'ended' if stop in tokens else 'not ended'}"
        for i, tokens in enumerate(ended)
    ]


# Positions that turn by the length of a text. transformers turns a padded batch by the longest of its texts, and keeps
# the frequencies of the last text: one text and one model each time.
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("llama2", {"max_position_embeddings": 40, "rope_parameters": {**tiny_models.DYNAMIC, "rope_theta": 500.0}}),
        ("phi3", {"original_max_position_embeddings": 6}),
    ],
)
def test_tokens_beyond_the_original_positions_are_identical(name: str, more: dict[str, Any], tmp_path: Path) -> None:
    model = tiny_models.write(name, tmp_path, **more)
    generator = torch.Generator().manual_seed(7)
    texts = [torch.randint(3, 96, (length,), generator=generator).tolist() for length in (7, 17, 50)]
    free = [greedy(copy.deepcopy(model), [text])[0] for text in texts]
    assert all(len(set(tokens)) > 8 for tokens in free), "a loop of a few tokens proves little"
    vocab = model.config.vocab_size  # nothing is that token
    for found, _ in ours(tmp_path, texts, vocab).values():
        assert found == free


def test_a_text_that_transformers_reads_again_is_refused(tmp_path: Path) -> None:
    tiny_models.write("phi3", tmp_path)
    done = complete(tmp_path, "--prompt_ids=3,4;" + ",".join("5" * 129), "--axis=complete.new=128")
    assert "a text that grows from 2 to 129 tokens, past original_max_position_embeddings (128)" in done.stdout


# With the place in the best text of a token that then ends texts on the way to it; None: none does.
@pytest.mark.parametrize(("name", "searches"), [("grouped", {2: 4, 5: None}), ("mistral", {5: NEW // 2})])
def test_the_best_text_of_a_beam_search_is_identical(
    name: str, searches: dict[int, int | None], tmp_path: Path
) -> None:
    model = tiny_models.write(name, tmp_path)
    (plain,) = greedy(model, [PROMPT])
    differ = 0
    for beams, place in searches.items():
        stop = model.config.vocab_size  # nothing is that token
        expected, _ = generated(model, [PROMPT], num_beams=beams)
        if place is not None:
            stop = expected[0][place]
            expected, _ = generated(model, [PROMPT], stop, num_beams=beams)
        differ += expected[0] != plain[: len(expected[0])]
        for impl, (found, _) in ours(tmp_path, [PROMPT], stop, f"--axis=complete.beams={beams}").items():
            assert found == expected, (beams, impl)
    assert differ, "a search that finds what is likeliest at every step proves little"


def test_length_penalty_and_early_stopping_are_those_of_transformers(tmp_path: Path) -> None:
    model = tiny_models.write("grouped", tmp_path)
    (plain,) = greedy(model, [PROMPT])
    stop = plain[3]
    texts = set()
    for early_stopping, penalty in ((False, 3.0), (True, 1.0), ("never", -2.0)):
        options = {"length_penalty": penalty, "early_stopping": early_stopping}
        expected, _ = generated(model, [PROMPT], stop, num_beams=4, **options)
        flags = [f"--{name}={str(value).lower()}" for name, value in options.items()]
        for impl, (found, _) in ours(tmp_path, [PROMPT], stop, "--axis=complete.beams=4", *flags).items():
            assert found == expected, (options, impl)
        texts.add(tuple(expected[0]))
    assert len(texts) > 1, "options that change nothing prove little"


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


def assisted(model: Any, draft: Any) -> tuple[list[list[int]], int]:
    """The text of assisted generation, and the number of the model's forward passes."""
    draft.generation_config.update(
        num_assistant_tokens=GUESSES,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
        eos_token_id=None,
    )
    calls = []
    hook = model.register_forward_hook(lambda *_: calls.append(1))
    text, _ = generated(model, [PROMPT], assistant_model=draft)
    hook.remove()
    return text, len(calls)


@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_passes_are_those_of_assisted_generation(noise: float, tmp_path: Path) -> None:
    model = tiny_models.write("grouped", tmp_path)
    expected = greedy(model, [PROMPT])
    text, calls = assisted(model, noisy(model, noise, tmp_path / "draft"))
    assert text == expected
    drafted = (f"--draft_checkpoint={tmp_path / 'draft'}", "--axis=complete.draft=fp32")
    stop = model.config.vocab_size  # nothing is that token
    found = ours(tmp_path, [PROMPT], stop, *drafted, f"--axis=complete.guesses={GUESSES}")
    for impl, (tokens, case) in found.items():
        assert tokens == expected, impl
        assert case["agreed_tokens"] == NEW
        # Their first pass has the prompt and guesses in it; ours reads the prompt alone.
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
    (free,) = greedy(model, [PROMPT])
    stop = free[NEW // 2]
    expected = greedy(model, [PROMPT], stop)
    for precision in ("fp32", "int8"):
        flags = (f"--axis=complete.draft={precision}", f"--axis=complete.guesses={GUESSES}")
        for impl, (tokens, case) in ours(tmp_path, [PROMPT], stop, *flags).items():
            assert tokens == expected, (impl, precision)
            assert case["agreed_tokens"] == len(expected[0])
            assert case["acceptance"] == 1 if precision == "fp32" else 0 < case["acceptance"] <= 1


def test_drafts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    tiny_models.write("grouped", tmp_path)
    tiny_models.write("qwen2", tmp_path / "other")
    for flags, why in {
        "--axis=complete.beams=2 --axis=complete.draft=int8": "sampling:greedy and beams:1 take a draft",
        "--axis=complete.sampling=top_k --axis=complete.draft=int8": "sampling:greedy and beams:1 take a draft",
        "--axis=complete.precision=llm_int8 --axis=complete.draft=int8": "guesses would change the text",
        "--prompt_ids=3,4;5 --axis=complete.draft=int8": "give a single one",
        f"--axis=complete.draft=fp32 --draft_checkpoint={tmp_path}/other": "take one of the same tokenizer",
        f"--draft_checkpoint={tmp_path}/other": "--axis=complete.draft=PRECISION",
        f"--axis=complete.draft=fp32 --draft_checkpoint={tmp_path}/none": f"--draft_checkpoint={tmp_path}/none: ",
    }.items():
        done = complete(tmp_path, "--prompt_ids=3,4", "--axis=complete.new=4", *flags.split())
        assert why in " ".join((done.stdout + done.stderr).split()), flags
