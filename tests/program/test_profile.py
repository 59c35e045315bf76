# SPDX-License-Identifier: Apache-2.0
"""--profile: tables and a trace of every family, in files that others can read, and never a timed sample."""

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from built_program import HAS_BF16, QUICKLY, Run

pytestmark = pytest.mark.slow  # a profile takes seconds

# Sizes that leave the points of every family small.
SMALL = (
    *("cache=warm", "bytes=65536", "parameters=4096", "elements=4096", "rows=16", "d=64", "hidden=64", "tokens=16"),
    *("m=64", "n=256", "k=256", "batch=2", "model=tiny_llama", "prompt=6", "depth=4", "new=3", "rope.heads=2"),
    *("train_step.heads=2", "d_model=16", "d_ff=32", "layers=2", "context=16", "vocab=64", "keys=64"),
)
# They need --checkpoint.
OF_A_CHECKPOINT = {"complete", "quality"}
# One training step, whose ranges, operators and backward pass are all there is to see.
MODEL = "vocab:50/d_model:16/d_ff:32/layers:2/heads:2"
STEP = (
    f"--benchmark_filter=^train_step/impl:eager/size:small/context:16/dtype:fp32/attention:naive/{MODEL}$",
    *(f"--axis=train_step.{axis.replace(':', '=')}" for axis in MODEL.split("/")),
    "--axis=train_step.context=16",
    *QUICKLY,
    "--benchmark_min_time=2x",
)
TABLES = ("operators", "kernels", "modules", "routines")


def profiles(folder: Path) -> dict[str, Any]:
    """By case."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json")) if ".trace." not in path.name]
    return {profile["case"]: profile for profile in found}


def stems(folder: Path) -> set[str]:
    return {path.name.removesuffix(".txt") for path in folder.glob("*.txt")}


def profiled(run: Run, folder: Path, *flags: str) -> dict[str, Any]:
    done = run(*flags, f"--profile={folder}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "STAGE" not in done.stderr
    return profiles(folder)


@pytest.fixture(scope="module")
def step(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The name of the files of that step, and its profile."""
    folder = tmp_path_factory.mktemp("step")
    (profile,) = profiled(run, folder, *STEP).values()
    (stem,) = stems(folder)
    return stem, profile


def parts(profile: dict[str, Any]) -> list[str]:
    return [row["path"] for row in profile["modules"]]


def one_each(names: list[str]) -> list[str]:
    """The first case of each family and implementation that needs neither a compiler, a checkpoint nor a GPU."""
    first: dict[tuple[str, str], str] = {}
    for name in names:
        family, *axes = name.split("/")
        implementation = next((axis for axis in axes if axis.startswith("impl:")), "")
        if family not in OF_A_CHECKPOINT and implementation not in ("impl:compiled", "impl:graph"):
            first.setdefault((family, implementation), "/".join([family, *axes]))
    return list(first.values())


def test_every_family(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    axes = [f"--axis={axis}" for axis in SMALL]
    listed = run("--suite=full", "--benchmark_list_tests", *axes).stdout.splitlines()
    listed = [name for name in listed if "/ranks:" not in name]  # test_several_ranks has such cases
    if "amx_tile" not in Path("/proc/cpuinfo").read_text():
        listed = [name for name in listed if not name.startswith("matmul/impl:native/")]
    if not HAS_BF16:  # which oneDNN then refuses
        listed = [name for name in listed if "/impl:onednn/" not in name or "fp32" in name]
    chosen = one_each(listed)
    assert {name.split("/")[0] for name in chosen} | OF_A_CHECKPOINT == {name.split("/")[0] for name in listed}
    cases = f"--benchmark_filter=^({'|'.join(chosen)})$"
    found = profiled(run, folder, "--suite=full", cases, "--profile_steps=1", *QUICKLY, *axes)
    assert set(found) == set(chosen)
    assert len(stems(folder)) == len(found)
    for case, profile in found.items():
        assert profile["profiled_ms"] > 0, case
        assert profile["kernels"] or case.startswith("harness_overhead/"), case  # its step is empty
        assert sum(row["share"] for row in profile["kernels"]) < 1.001, case
        ours = [row["name"] for row in profile["kernels"] if row["name"].startswith("roofbench::")]
        assert ours or "/impl:native/" not in case, case
        assert profile["profiler_own"] >= 0, case
        assert profile["covered"] + profile["profiler_own"] < 1.001, case
        assert parts(profile)[0] == "", case
        assert profile["modules"][0]["total_ms"] == pytest.approx(profile["profiled_ms"], rel=1e-3), case
        # A phase is not nested in another one.
        phases = {phase["name"] for phase in profile["phases"]}
        assert not [path for path in parts(profile) if len(phases & set(path.split("/"))) > 1], case
    for stem in stems(folder):
        for table in TABLES:
            rows = list(csv.DictReader((folder / f"{stem}.{table}.csv").open()))
            assert len(rows) == len(json.loads((folder / f"{stem}.json").read_text())[table])
        assert json.loads((folder / f"{stem}.trace.json").read_text())["traceEvents"]
    assert not list(folder.glob("*.part*"))


def test_several_ranks(run: Run, tmp_path: Path) -> None:
    """Rank 0's step, which the others take with it; and the next case finds all in step."""
    cases = "--benchmark_filter=^(mlp/.*/parallel:(ddp_overlap|tensor)|all_reduce/impl:gloo/.*/bytes:1024)/?"
    sizes = ("--axis=mlp.d=64", "--axis=mlp.batch=16", "--axis=all_reduce.dtype=fp32", "--suite=standard")
    out = tmp_path / "out.json"
    flags = (cases, *sizes, "--ranks=2", *QUICKLY, "--profile_steps=2", f"--benchmark_out={out}")
    done = run(*flags, f"--profile={tmp_path / 'profiles'}")
    if "this build has no Gloo" in done.stdout + done.stderr:
        pytest.skip("this build has no Gloo")
    assert done.returncode == 0, done.stdout + done.stderr
    found = profiles(tmp_path / "profiles")
    rows = [row for row in json.loads(out.read_text())["benchmarks"] if row["run_type"] == "iteration"]
    assert {row["name"].removesuffix("/manual_time") for row in rows} == set(found)
    assert {name.split("/")[0] for name in found} == {"mlp", "all_reduce"} and len(found) >= 3
    for case, profile in found.items():
        assert profile["steps"] == 2 and profile["profiled_ms"] > 0, case
        assert profile["covered"] + profile["profiler_own"] < 1.001, case
    computing = next(profile for case, profile in found.items() if "/parallel:tensor/" in case)
    assert {"forward", "backward"} <= {phase["name"] for phase in computing["phases"]}


def test_samples_are_not_the_profiled_steps(run: Run, tmp_path: Path) -> None:
    """A run also continues where another began without the flag: the measured cases are the same."""
    out, journal = tmp_path / "out.json", tmp_path / "journal"
    profiled(run, tmp_path / "profiles", *STEP, f"--benchmark_out={out}", "--profile_steps=7")
    assert [row["samples"] for row in json.loads(out.read_text())["benchmarks"]] == [2]
    assert run(*STEP, f"--journal={journal}").returncode == 0
    assert run(*STEP, f"--journal={journal}", "--resume", f"--profile={tmp_path / 'more'}").returncode == 0


def test_text_is_sorted_and_cut_as_asked(run: Run, tmp_path: Path) -> None:
    flags = (*STEP, "--profile_sort=calls", "--profile_rows=3", "--profile_width=10")
    (profile,) = profiled(run, tmp_path, *flags, "--profile_depth=1").values()
    calls = [row["calls"] for row in profile["operators"]]
    assert len(calls) > 3
    assert calls == sorted(calls, reverse=True)
    assert max(path.count("/") for path in parts(profile)) == 0
    (text,) = (path.read_text() for path in tmp_path.glob("*.txt"))
    operators = text.split("Operators\n")[1].split("\n\n")[0].splitlines()
    assert len(operators) == 1 + 3 + 1
    assert operators[-1] == f"… and {len(calls) - 3} more (--profile_rows)"
    assert all(len(line.split("  ")[0]) <= 11 for line in operators[1:4])


def test_the_routine_of_a_product_is_named(run: Run, tmp_path: Path) -> None:
    axes = ("--suite=full", "--axis=matmul.n=64", "--axis=matmul.m=n", "--axis=matmul.k=n")
    case = "--benchmark_filter=^matmul/impl:onednn/dtype:fp32/n:64$"
    (profile,) = profiled(run, tmp_path, case, *axes, *QUICKLY).values()
    (row,) = profile["routines"]
    assert row["library"] == "oneDNN"
    assert row["name"].startswith("inner_product ")
    assert row["problem"] == "mb64ic64oc64"
    assert row["calls"] == 1
    assert row["total_ms"] > 0


def test_a_folder_that_cannot_be_written_is_reported_and_costs_no_row(
    run: Run, tmp_path: Path, step: tuple[str, dict[str, Any]]
) -> None:
    stem, profile = step
    folder, out = tmp_path / "profiles", tmp_path / "out.json"
    (folder / f"{stem}.json").mkdir(parents=True)
    done = run(*STEP, f"--profile={folder}", f"--benchmark_out={out}")
    assert done.returncode == 1
    assert stem in done.stderr
    (row,) = json.loads(out.read_text())["benchmarks"]
    assert row["name"].startswith(profile["case"])
    assert "error_occurred" not in row


def test_no_link_is_followed(run: Run, tmp_path: Path, step: tuple[str, dict[str, Any]]) -> None:
    folder, victim = tmp_path / "profiles", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("kept")
    trace = folder / f"{step[0]}.trace.json"
    trace.symlink_to(victim)
    profiled(run, folder, *STEP)
    assert victim.read_text() == "kept"
    assert not trace.is_symlink()
    assert stat.S_IMODE(trace.stat().st_mode) & 0o022 == 0


def test_parts_of_a_training_step(step: tuple[str, dict[str, Any]]) -> None:
    _, profile = step
    attention = {"attention", "attention/scores", "attention/softmax", "attention/weighted sum", "feed forward"}
    blocks = {f"block {i}" for i in range(2)} | {f"block {i}/{part}" for i in range(2) for part in attention}
    forward = {f"forward/{part}" for part in blocks | {"embedding", "head", "loss"}}
    # The backward pass reads as the forward pass does.
    assert forward | {part.replace("forward/", "backward/", 1) for part in forward} <= set(parts(profile))
    assert {path for path in parts(profile) if "/" not in path} == {"", "forward", "backward", "optimizer"}
    # A part has its own time and that of the parts inside it.
    rows = {row["path"]: row for row in profile["modules"]}
    for path, row in rows.items():
        inside = [other for other in rows if other.startswith(f"{path}/" if path else "") and other != path]
        inner = [other for other in inside if other.count("/") == (path.count("/") + 1 if path else 0)]
        assert row["total_ms"] == pytest.approx(row["self_ms"] + sum(rows[other]["total_ms"] for other in inner))
        assert row["flops"] >= sum(rows[other]["flops"] for other in inner)


@pytest.fixture(scope="module")
def generations(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By precision and number of new tokens."""
    axes = ("model=tiny_llama", "precision=bf16,llm_int8,int4", "prompt=6", "new=1,3")
    flags = ("--benchmark_filter=^generate/model:", *(f"--axis=generate.{axis}" for axis in axes), *QUICKLY)
    found = profiled(run, tmp_path_factory.mktemp("generations"), *flags)
    return {"/".join(case.split("/")[i] for i in (2, 4)): profile for case, profile in found.items()}


def kernels(profile: dict[str, Any], phase: str) -> dict[str, Any]:
    return {row["name"].removeprefix("roofbench::"): row for row in profile["kernels"] if row["phase"] == phase}


def test_prefill_and_decode_stand_apart(generations: dict[str, Any]) -> None:
    profile = generations["precision:bf16/new:3"]
    assert [path for path in parts(profile) if "/" not in path] == ["", "prefill", "decode"]
    assert [phase["name"] for phase in profile["phases"]] == ["prefill", "decode"]
    ours = kernels(profile, "decode")
    # Two tokens after the first, in two blocks.
    assert ours["decode_attention"]["calls"] == 4
    assert ours["linear head"]["calls"] == 2
    assert {"prefill/block 1/attention", "decode/block 1"} <= set(parts(profile))


def test_one_token_is_the_prompt_alone(generations: dict[str, Any]) -> None:
    profile = generations["precision:bf16/new:1"]
    assert [path for path in parts(profile) if "/" not in path] == ["", "prefill"]
    assert [phase["name"] for phase in profile["phases"]] == ["prefill"]
    assert {row["phase"] for row in profile["kernels"]} == {"prefill"}
    (calls,) = {row["calls"] for row in profile["modules"] if row["path"] in ("prefill", "prefill/head")}
    assert calls == 1


def test_stages_of_quantized_prompts_have_their_kernels(generations: dict[str, Any]) -> None:
    ours = kernels(generations["precision:llm_int8/new:3"], "prefill")
    assert ours["llm_int8 product"]["work"] == "product"
    calls = {ours[f"llm_int8 {stage}"]["calls"] for stage in ("statistics", "quantize", "product")}
    assert len(calls) == 1 and calls.pop() > 0
    int4 = generations["precision:int4/new:3"]
    assert kernels(int4, "prefill")["unpack_int4"]["calls"] > 0
    assert "unpack_int4" not in kernels(int4, "decode"), "a token is multiplied by weights as they are stored"


# Launches of our kernels in a step of two blocks. A kernel outside of a range with its name is missing here.
KERNELS = {
    f"train_step/impl:native/size:small/context:16/dtype:fp32/{MODEL}": {
        "adamw": 1, "attention": 2, "attention_gradient": 2, "cross_entropy": 1, "rms_norm": 5, "rms_norm_gradient": 5,
        "rope": 4, "silu_mul": 2, "silu_mul_gradient": 2, "transpose": 15,
    },
    "decode/model:tiny_llama/precision:bf16/depth:4": {
        "decode_attention": 2, "linear down": 2, "linear gate_up": 2, "linear head": 1, "linear out": 2,
        "linear qkv": 2, "rms_norm": 5,
    },
}  # fmt: skip


def test_every_kernel_of_a_model_is_named(run: Run, tmp_path: Path) -> None:
    axes = [f"--axis=train_step.{axis.replace(':', '=')}" for axis in (*MODEL.split("/"), "context:16", "impl:native")]
    axes += ["--axis=train_step.attention=sdpa", "--axis=decode.model=tiny_llama", "--axis=decode.depth=4"]
    cases = f"--benchmark_filter=^({'|'.join(KERNELS)})$"
    found = profiled(run, tmp_path, "--suite=full", cases, "--profile_steps=1", *QUICKLY, *axes)
    launched = {
        case: {
            row["name"].removeprefix("roofbench::"): row["calls"]
            for row in profile["kernels"]
            if row["name"].startswith("roofbench::")
        }
        for case, profile in found.items()
    }
    assert launched == KERNELS
