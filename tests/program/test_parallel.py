# SPDX-License-Identifier: Apache-2.0
"""Steps that ranks share: checked, with the memory and the bytes of their formulas."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from built_program import NO_ROOFS, PROGRAM

Sizes = dict[str, int | str]
# Those of training have most of their memory in activations, and then most of it in parameters, or the reverse.
SIZES: dict[str, Sizes] = {
    "train_step": {"d_model": 96, "heads": 4, "d_ff": 384, "layers": 2, "context": 32, "vocab": 500},
    "mlp": {"batch": 16, "d": 128},
    "decode": {"model": "llama3_1b_4th", "depth": 16},
    "prefill": {"prompt": 16},
}
OTHER_SIZES: dict[str, Sizes] = {
    "train_step": {"d_model": 64, "heads": 4, "d_ff": 1024, "layers": 3, "context": 16, "vocab": 100, "batch": 2},
    "mlp": {"batch": 192, "d": 64, "layers": 6},
}
QUICKLY = ("--benchmark_min_time=3x", "--warmup_iters=1", "--threads=1", *NO_ROOFS)
KINDS = {"ddp_naive", "ddp_flat", "ddp_overlap", "ddp_bucketed", "ddp_torch", "zero1", "fsdp", "tensor"}
# Gloo's reduce-scatter is an all-reduce.
SENT = {"zero1": 1.5, "fsdp": 4 / 3}


def rows(
    family: str, tmp_path: Path, ranks: str = "2", all_sizes: dict[str, Sizes] = SIZES, kinds: str = "[^n]"
) -> list[dict[str, Any]]:
    out = tmp_path / "out.json"
    sizes = [f"--axis={family}.{axis}={size}" for axis, size in all_sizes[family].items()]
    command: list[str | Path] = [
        PROGRAM,
        f"--benchmark_filter=^{family}/.*/parallel:{kinds}",
        *QUICKLY,
        f"--ranks={ranks}",
        *sizes,
        f"--benchmark_out={out}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if "this build has no Gloo" in done.stdout + done.stderr:
        pytest.skip("this build has no Gloo")
    assert done.returncode == 0, done.stdout + done.stderr
    return [row for row in json.loads(out.read_text())["benchmarks"] if row["run_type"] == "iteration"]


def checked(row: dict[str, Any], sent: float = 1) -> float:
    """Its memory above what was predicted."""
    assert not row.get("error_message") and not row.get("skip_message"), row
    assert row["computation_ms"] > 0 and row["communication_ms"] > 0
    assert "exposed_communication_ms" in row and "communication_overlap" in row
    assert row["sent_bytes"] == pytest.approx(sent * row["predicted_sent_bytes"], rel=0.01)
    return round(float(row["peak_mem"]) / float(row["predicted_mem"]) - 1, 3)


@pytest.mark.parametrize(
    ("ranks", "sizes"),
    [
        pytest.param("2", SIZES, marks=pytest.mark.slow),
        pytest.param("2,4", OTHER_SIZES, marks=pytest.mark.nightly),
    ],
    ids=["sizes", "other_sizes"],
)
@pytest.mark.parametrize("family", OTHER_SIZES)
def test_every_kind(family: str, ranks: str, sizes: dict[str, Sizes], tmp_path: Path) -> None:
    found = {tuple(row["name"].split("parallel:")[1].split("/")): row for row in rows(family, tmp_path, ranks, sizes)}
    kinds = KINDS if family == "train_step" else KINDS - {"zero1"}
    assert set(found) == {(kind, f"ranks:{count}") for kind in kinds for count in ranks.split(",")}
    off = {case: checked(row, SENT.get(case[0], 1)) for case, row in found.items()}
    assert max(map(abs, off.values())) <= 0.03, off


@pytest.mark.parametrize(
    ("family", "kind", "buckets"),
    [
        pytest.param("train_step", "ddp_bucketed", "1,25", marks=pytest.mark.slow),
        pytest.param("train_step", "zero1", "1,25", marks=pytest.mark.slow),
        ("mlp", "ddp_bucketed", "1,2,3,9"),
        pytest.param("train_step", "ddp_bucketed", "4,7,15", marks=pytest.mark.nightly),
        pytest.param("train_step", "zero1", "4,7", marks=pytest.mark.nightly),
    ],
)
def test_buckets_of_any_size(family: str, kind: str, buckets: str, tmp_path: Path) -> None:
    """The last one may be small, or have one gradient, which is not copied."""
    sizes: dict[str, Sizes] = {
        "train_step": {"d_model": 256, "heads": 4, "d_ff": 1024, "layers": 3, "context": 16, "vocab": 6000},
        "mlp": {"batch": 16, "d": 512, "layers": 5},
    }
    chosen = {family: sizes[family] | {"bucket_mib": buckets}}
    found = rows(family, tmp_path, all_sizes=chosen, kinds=kind)
    off = {row["name"]: checked(row, SENT.get(kind, 1)) for row in found}
    assert len(off) == buckets.count(",") + 1 and max(map(abs, off.values())) <= 0.03, off
    if kind == "ddp_bucketed":
        assert len({row["peak_mem"] for row in found}) > 1, "the axis changes the buckets"


@pytest.mark.slow
def test_rounding_that_grows_with_the_depth(tmp_path: Path) -> None:
    """It is largest in the rows of the embedding that few tokens read, whose values are small."""
    deep = {"train_step": SIZES["train_step"] | {"layers": 24, "vocab": 10_000}}
    (row,) = rows("train_step", tmp_path, all_sizes=deep, kinds="ddp_flat")
    assert abs(checked(row)) <= 0.03


@pytest.mark.slow
@pytest.mark.parametrize("family", ["decode", "prefill"])
def test_decoders(family: str, tmp_path: Path) -> None:
    found = rows(family, tmp_path)
    assert len(found) >= 2
    for row in found:
        assert abs(checked(row)) <= 0.03, row["name"]
        # Its model is the whole one, of which a rank has the embedding and a half of the layers.
        assert row["parameters"] == 308_955_136
        assert row["wait_ms"] > 0


def test_one_rank_has_nothing_to_communicate(tmp_path: Path) -> None:
    for row in rows("mlp", tmp_path, ranks="1"):
        assert row["computation_ms"] > 0 and row["sent_bytes"] == 0
        assert not {"communication_ms", "exposed_communication_ms", "communication_overlap"} & set(row)
