# SPDX-License-Identifier: Apache-2.0
"""The published table of training steps, and parameters against time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import builders
import pytest
from reports import Report


def _step(size: str, dtype: str, milliseconds: float, millions: float) -> dict[str, Any]:
    name = f"train_step/impl:eager/size:{size}/context:128/dtype:{dtype}"
    phases = {
        f"{phase}_{statistic}_ms": share * milliseconds * factor
        for phase, share in (("forward", 0.3), ("backward", 0.6), ("optimizer", 0.1))
        for statistic, factor in (("mean", 1.0), ("stddev", 0.01))
    }
    parts = {"embedding": 0.1, "attention": 0.3, "feedforward": 0.45, "norm": 0.05, "head": 0.1}
    counters = {f"{part}_params": share * millions * 1e6 for part, share in parts.items()}
    rates = {"parameters": millions * 1e6, "tokens/s": 512e3 / milliseconds, "mfu_measured": 0.7, "peak_mem": 2.1e9}
    changes: dict[str, Any] = {**phases, **counters, **rates}
    return builders.row(name, milliseconds, **changes)


@pytest.fixture
def result(tmp_path: Path) -> Path:
    rows = [
        _step("small", "fp32", 2000.0, 100.0),
        _step("small", "bf16_autocast", 1000.0, 100.0),
        _step("medium", "fp32", 16000.0, 400.0),
        builders.error_row("train_step/impl:eager/size:10B/context:128/dtype:fp32", "skipped: needs about 225 GiB"),
        builders.row(builders.MATMUL, 10.0),
    ]
    return builders.write_json(tmp_path / "run.json", rows)


def test_published(result: Path, report: Report) -> None:
    lines = report("table", result, "--training").splitlines()
    assert lines[0].split()[:5] == ["size", "impl", "context", "dtype", "forward"]
    half = next(line for line in lines if "bf16_autocast" in line)
    for part in ("300 ± 3 ms", "600 ± 6 ms", "100 ± 1 ms", "2.00", "512", "70 %", "2.1 GB", "2.00x"):
        assert part in half
    assert "x" not in next(line for line in lines if line.startswith("small") and "fp32" in line).split("GB")[1]
    assert "needs about 225 GiB" in next(line for line in lines if line.startswith("10B"))
    assert not any("matmul" in line for line in lines)


def test_rows_of_several_files_follow_each_other(result: Path, tmp_path: Path, report: Report) -> None:
    """Each compared within its own file."""
    steps = [_step("small", "fp32", 500.0, 100.0), _step("small", "bf16_autocast", 125.0, 100.0)]
    other = builders.write_json(tmp_path / "other.json", steps)
    rows = report.rows("table", result, other, "--training")
    assert [(row["file"], row["size"], row["vs fp32"]) for row in rows if row["dtype"] == "bf16_autocast"] == [
        ("[1]", "small", "2.0"),
        ("[2]", "small", "4.0"),
    ]
    assert len(rows) == 6
    assert f"[2] {other}" in report("table", result, other, "--training", "--repeats")
    untrained = builders.write_json(tmp_path / "none.json", [builders.row(builders.MATMUL, 10.0)])
    assert f"{untrained}: holds no training step" in report.refused("table", result, untrained, "--training")


def test_a_single_step_has_no_deviation(tmp_path: Path, report: Report) -> None:
    row = _step("small", "fp32", 2000.0, 100.0) | {"samples": 1.0}
    lines = report("table", builders.write_json(tmp_path / "run.json", [row]), "--training").splitlines()
    *_, small, legend = lines
    assert "600 ms" in small and "±" not in small and "±" in legend
    assert small.endswith("  1 sample")


def test_a_forward_pass_alone(tmp_path: Path, report: Report) -> None:
    row = _step("small", "fp32", 2000.0, 100.0)
    forward = {name: value for name, value in row.items() if not name.startswith(("backward", "optimizer"))}
    headers, _, small, *_ = report(
        "table", builders.write_json(tmp_path / "run.json", [forward]), "--training"
    ).splitlines()
    assert headers.split()[:4] == ["size", "impl", "context", "dtype"]
    assert "600 ± 6 ms" in small


@pytest.mark.parametrize("flags", [[], ["--repeats"], ["--format=csv"]])
def test_sizes_that_were_all_skipped_are_rows_with_the_reason(flags: list[str], tmp_path: Path, report: Report) -> None:
    rows = [
        builders.error_row(f"train_step/impl:eager/pass:forward/size:{size}/context:128/dtype:fp32", f"skipped: {why}")
        for size, why in (("xl", "needs about 31 GiB"), ("2.7B", "needs about 53 GiB"))
    ]
    rows.append(builders.error_row("attention/impl:sdpa/pass:backward/heads:12", "skipped: not a training step"))
    lines = report("table", builders.write_json(tmp_path / "run.json", rows), "--training", *flags).splitlines()
    assert any(line.startswith("xl") and "needs about 31 GiB" in line for line in lines)
    assert any(line.startswith("2.7B") and "needs about 53 GiB" in line for line in lines)
    assert not any("attention" in line or "not a training step" in line for line in lines)


def test_parameters(result: Path, report: Report) -> None:
    lines = report("params", result).splitlines()
    medium = next(line for line in lines if line.startswith("medium"))
    for part in ("40 M", "120 M", "180 M", "20 M", "400 M", "16 s", "1.50"):  # 8 times the time at 4 times the size
        assert part in medium


def test_given_parts_of_a_size_are_sizes_of_one_setup(tmp_path: Path, report: Report) -> None:
    rows = [_step("small", f"fp32/d_model:{d}", 10.0 * d / 64, d / 64) for d in (64, 256)]
    lines = report("params", builders.write_json(tmp_path / "run.json", rows)).splitlines()
    assert "d_model" in lines[0]
    row = next(line for line in lines if " 256 " in line)
    assert "4.00x" in row and "1.00" in row, "four times the time at four times the size"
    lines = report("params", builders.write_json(tmp_path / "run.json", rows[:1])).splitlines()
    assert lines[0].split()[:2] == ["size", "d_model"], "not the published small"


def test_repetitions_in_one_row_say_so(repeated: Path, report: Report) -> None:
    assert "of repetitions: the median of each figure by itself" in report("table", repeated, "--training")


def test_no_training_steps(tmp_path: Path, report: Report) -> None:
    other = builders.write_json(tmp_path / "other.json", [builders.row(builders.MATMUL, 10.0)])
    report("table", other, "--training", status=2)
    assert "holds no training step" in report.refused("params", other)


@pytest.fixture
def repeated(tmp_path: Path) -> Path:
    rows = [
        _step("small", "fp32", milliseconds, 100.0) | {"repetition_index": number, "repetitions": 3}
        for number, milliseconds in enumerate((1000.0, 2000.0, 3000.0))
    ]
    return builders.write_json(tmp_path / "repeated.json", rows)


def test_repeats_are_rows_and_so_is_their_mean(repeated: Path, report: Report) -> None:
    lines = report("table", repeated, "--training", "--repeats").splitlines()
    assert lines[0].split()[:4] == ["size", "impl", "context", "dtype"]
    rows = [line for line in lines if line.startswith("small")]
    assert len(rows) == 4
    for row, expected in zip(rows, ("300 ± 3 ms", "600 ± 6 ms", "900 ± 9 ms"), strict=False):
        assert expected in row
    # Half of the sum of squares over two: the repetitions are a sample.
    assert "mean" in rows[3]
    assert "600 ± 300 ms" in rows[3]


def test_csv_has_every_deviation(result: Path, repeated: Path, report: Report) -> None:
    (row, *_) = report.rows("table", result, "--training")
    assert (float(row["forward"]), float(row["forward sd"])) == (0.6, 0.006)
    assert float(row["optimizer sd"]) == pytest.approx(0.002)
    rows = report.rows("table", repeated, "--training", "--repeats")
    assert [row["repeat"] for row in rows] == ["1", "2", "3", "mean"]
    assert float(rows[3]["forward sd"]) == pytest.approx(0.3)


def test_repeats_are_of_training_alone(result: Path, report: Report) -> None:
    assert "--repeats needs --training" in report.refused("table", result, "--repeats")


def test_each_phase_grows_from_the_smallest_size(tmp_path: Path, report: Report) -> None:
    # The phases of the small size take 600, 1200 and 200 ms.
    grown = {"forward_mean_ms": 1200.0, "backward_mean_ms": 3600.0, "optimizer_mean_ms": 1000.0}
    steps = [_step("small", "fp32", 2000.0, 100.0), _step("medium", "fp32", 16000.0, 400.0) | grown]
    result = builders.write_json(tmp_path / "grown.json", steps)
    small, medium = report.rows("params", result)
    assert (small["size"], medium["size"]) == ("small", "medium")
    for column, times in (("x time", 8), ("x forward", 2), ("x backward", 3), ("x optimizer", 5)):
        assert float(small[column]) == 1
        assert float(medium[column]) == pytest.approx(times)


def test_columns_that_no_row_has_are_left_out(tmp_path: Path, report: Report) -> None:
    """Utilization needs roofs, a gain needs a precision other than fp32, and memory is not measured with a fixed number
    of warm-ups.
    """
    step = _step("small", "fp32", 2000.0, 100.0)
    for counter in ("mfu_measured", "peak_mem"):
        del step[counter]
    headers, _, row, *_ = report("table", builders.write_json(tmp_path / "run.json", [step]), "--training").splitlines()
    axes, phases = ["size", "impl", "context", "dtype"], ["forward", "backward", "optimizer"]
    assert headers.split() == [*axes, *phases, "bwd/fwd", "tokens/s"]
    assert "600 ± 6 ms" in row


def _renamed(row: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {key: value.replace(old, new) if isinstance(value, str) else value for key, value in row.items()}


def test_phases_stand_in_the_order_of_a_step(tmp_path: Path, report: Report) -> None:
    """JSON has counters by the alphabet."""
    step = dict(sorted(_step("small", "fp32", 2000.0, 100.0).items()))
    (row,) = report.rows("table", builders.write_json(tmp_path / "run.json", [step]), "--training")
    assert [name for name in row if name in ("forward", "backward", "optimizer")] == [
        "forward",
        "backward",
        "optimizer",
    ]


def test_axes_are_columns_also_where_a_name_omits_their_default(tmp_path: Path, report: Report) -> None:
    first = _step("small", "fp32", 2000.0, 100.0)
    other = _renamed(first, "/size", "/pass:forward/size")
    rows = report.rows("table", builders.write_json(tmp_path / "run.json", [first, other]), "--training")
    assert [(row["impl"], row["pass"], row["size"], row["dtype"]) for row in rows] == [
        ("eager", "step", "small", "fp32"),
        ("eager", "forward", "small", "fp32"),
    ]


def test_warmups_have_their_first_step(tmp_path: Path, report: Report) -> None:
    rows = [_step("small", "fp32", 2000.0, 100.0) | {"first_step_ms": 2500.0}]
    path = builders.write_json(tmp_path / "run.json", rows)
    assert "first step" not in report.rows("table", path, "--training")[0]
    rows = [_renamed(rows[0], "dtype:fp32", f"dtype:fp32/warmup:{steps}") for steps in (0, 5)]
    found = report.rows("table", builders.write_json(tmp_path / "run.json", rows), "--training")
    assert [(row["warmup"], float(row["first step"])) for row in found] == [("0", 2.5), ("5", 2.5)]


def test_warmups_have_the_whole_step_that_is_published(tmp_path: Path, report: Report) -> None:
    """Forward and backward together, over the steps of a run and over runs."""
    steps = [
        _renamed(_step("small", "fp32", 1000.0 * (1 + i), 100.0), "dtype:fp32", "dtype:fp32/warmup:0")
        | {"mean_ms": 1100.0 * (1 + i), "stddev_ms": 193.0, "repetition_index": i, "repetitions": 2}
        for i in range(2)
    ]
    path = builders.write_json(tmp_path / "run.json", steps)
    first, _, mean = report.rows("table", path, "--training", "--repeats")
    assert (float(first["step"]), float(first["step sd"])) == pytest.approx((1.1, 0.193))
    assert (float(mean["step"]), float(mean["step sd"])) == pytest.approx((1.65, 0.55 * 2**0.5))


def test_parameters_of_one_size_are_one_row(tmp_path: Path, report: Report) -> None:
    steps = [_step("small", "fp32", 2000.0, 100.0), _step("small", "bf16_autocast", 1000.0, 100.0)]
    path = builders.write_json(tmp_path / "run.json", steps)
    (row,) = report.rows("params", path)
    assert row["size"] == "small" and float(row["parameters"]) == 100e6
    assert not {"time", "x time", "growth", "dtype"} & set(row)
    assert "measure a second size to see how time grows" in report("params", path)
