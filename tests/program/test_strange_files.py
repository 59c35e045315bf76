# SPDX-License-Identifier: Apache-2.0
"""Malformed checkpoints and prompts: refused before anything is measured, or a row with a reason, and never a wait, a
crash or a result without numbers.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest
import strange_folder
from built_program import NO_ROOFS, TINY, Run

COMPLETE = (
    "--benchmark_filter=^complete/",
    "--axis=complete.precision=fp32",
    "--axis=complete.new=2",
    "--benchmark_min_time=1x",
    "--warmup_iters=0",
    *NO_ROOFS,
    "--threads=1",
    "--benchmark_format=json",
)


def assert_refused(done: subprocess.CompletedProcess[str], *says: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == "", "nothing ran"
    for text in says:
        assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1, "a refusal is a line"


def the_case(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    (case,) = json.loads(done.stdout)["benchmarks"]
    return dict(case)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--checkpoint={tmp}/nothing", "{tmp}/nothing/config.json: No such file or directory"),
        ("--checkpoint={tmp}/empty", "{tmp}/empty/config.json: it is not valid JSON"),
        ("--checkpoint={tmp}/other", "{tmp}/other/config.json: not supported: models of the type 'gpt_neox'"),
        ("--prompt_ids={tmp}/nothing", "{tmp}/nothing: No such file or directory"),
        ("--prompt_ids={tmp}/empty/config.json", "--prompt_ids: there are none"),
        ("--prompt_ids=1,2,x", "--prompt_ids=1,2,x: not a file, and as a list of token ids: x is not a token id"),
        ("--prompt_ids=1,10", "--prompt_ids: 10 is not a token of the checkpoint, which has 10"),
        ("--stop_ids=2,end", "--stop_ids: end is not a token id"),
        ("--text_ids=5", "--text_ids: at least 2 tokens are wanted"),
        ("--text_ids=1,2,10", "--text_ids: 10 is not a token of the checkpoint, which has 10"),
        ("--text_ids=one", "--text_ids=one: one: No such file or directory"),
        ("--temperature=0", "--temperature=0: expected a number from 1e-6 to 1e6"),
        ("--seed=1", "--checkpoint has no effect on the selected cases: complete and quality read it"),
    ],
)
def test_a_bad_flag_is_refused(run: Run, tmp_path: Path, flag: str, said: str) -> None:
    """Whether or not a case needs it: a mistake on the command line is one."""
    good = strange_folder.write(tmp_path / "good")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"model_type": "gpt_neox"}')
    given = {"--checkpoint": str(good), "--prompt_ids": "1,2"}
    name, value = flag.format(tmp=tmp_path).split("=", 1)
    given[name] = value
    done = run(*TINY, *(f"{name}={value}" for name, value in given.items()))
    assert_refused(done, said.format(tmp=tmp_path))


@pytest.mark.parametrize(("family", "needs"), [("complete", ""), ("quality", "=FOLDER and --text_ids")])
def test_a_case_without_its_checkpoint_reports_what_it_needs(run: Run, family: str, needs: str) -> None:
    done = run(f"--benchmark_filter=^{family}/.*int8", "--suite=full", *NO_ROOFS)
    assert f"needs --checkpoint{needs}" in " ".join(done.stdout.split())


def test_infinite_logits_fail_the_case(run: Run, tmp_path: Path) -> None:
    checkpoint = strange_folder.write(tmp_path, 1e18)
    for check in ("on", "off"):
        done = run(*COMPLETE, f"--checkpoint={checkpoint}", "--prompt_ids=1,2", f"--check={check}")
        assert done.returncode == 1, done.stdout
        assert "failed: the model's logits are not all finite" in the_case(done)["error_message"]
    prefill = (*COMPLETE[3:], "--benchmark_filter=^prefill/impl:eager/model:checkpoint/precision:fp32/prompt:4")
    sizes = ("--axis=prefill.model=checkpoint", "--axis=prefill.precision=fp32", "--axis=prefill.prompt=4")
    done = run(*prefill, *sizes, f"--checkpoint={checkpoint}")
    assert "failed: the model's logits are not all finite, not even in fp32" in the_case(done)["error_message"]


def test_a_prompt_of_millions_is_skipped_with_a_reason(run: Run, tmp_path: Path) -> None:
    checkpoint = strange_folder.write(tmp_path)
    # More positions than tokens: a prompt beyond the limit would lose its beginning.
    config = strange_folder.CONFIG | {"max_position_embeddings": 4_000_000}
    (checkpoint / "config.json").write_text(json.dumps(config))
    prompt = tmp_path / "prompt"
    prompt.write_text("1," * 3_000_000)
    done = run(*COMPLETE, f"--checkpoint={checkpoint}", f"--prompt_ids={prompt}", "--max_step_time=1")
    assert done.returncode == 0, done.stderr
    assert "skipped: " in the_case(done)["error_message"]


def test_a_prompt_without_end_is_refused(program: Path, tmp_path: Path) -> None:
    checkpoint = strange_folder.write(tmp_path)
    command = [str(program), *COMPLETE, f"--checkpoint={checkpoint}", "--prompt_ids=-"]
    with Path("/dev/zero").open() as zeros:
        done = subprocess.run(command, stdin=zeros, capture_output=True, text=True, check=False, timeout=600)
    assert_refused(done, "--prompt_ids=-: standard input does not end after the 64.0 MiB")


def test_a_checkpoint_cut_short_while_it_is_read_fails_the_case(program: Path, tmp_path: Path) -> None:
    """The prompt is longer than a pipe holds: once it is written, the program has opened the checkpoint."""
    checkpoint = strange_folder.write(tmp_path)
    weights = checkpoint / "model.safetensors"
    size = weights.stat().st_size
    command = [str(program), *COMPLETE, f"--checkpoint={checkpoint}", "--prompt_ids=-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin
        running.stdin.write("1,2" + "\n" * (1 << 20))
        os.truncate(weights, size - 4)
        out, _ = running.communicate(timeout=600)
    assert running.returncode == 1, out
    (case,) = json.loads(out)["benchmarks"]
    why = f"{weights}: became shorter while it was read: it ends at byte {size - 4} of the {size} that it had"
    assert why in case["error_message"]


@pytest.mark.parametrize(
    ("kind", "megabytes"),
    [
        (resource.RLIMIT_DATA, 100),
        (resource.RLIMIT_DATA, 600),
        (resource.RLIMIT_AS, 400),  # LibTorch fits, but not what it allocates while it is loaded
        (resource.RLIMIT_AS, 600),
    ],
)
def test_little_memory_is_reported(program: Path, kind: int, megabytes: int) -> None:
    """With any amount of memory: the cases run, are skipped or fail with a reason, or a line reports that it is not
    enough.
    """
    limit = megabytes << 20

    def limited() -> None:
        resource.setrlimit(kind, (limit, limit))

    command = [str(program), *TINY, "--threads=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, preexec_fn=limited)
    if "error while loading shared libraries" in done.stderr:
        pytest.skip("a larger LibTorch, which the system's loader rejects")
    assert done.returncode in (0, 1, 2), done.stderr
    if done.returncode == 1:  # oneDNN does not report that an allocation failed
        assert "failed: could not create a primitive" in done.stdout
    if done.returncode == 2:
        assert "out of memory" in done.stderr
        assert "ulimit -d" in done.stderr
    for word in ("terminate", "what()", "frame #", "SIGABRT"):
        assert word not in done.stderr
