# SPDX-License-Identifier: Apache-2.0
"""The files that a run writes: strict JSON, complete CSV, a journal with one line per case, and a matching console."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest
from built_program import ROOT, TINY, WITH_ROOFS, Run


def strict_json(text: str) -> Any:
    """Refuses NaN and infinity, which Python's parser takes, and doubled keys, of which it keeps the last."""

    def refuse_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), f"doubled keys in {keys}"
        return dict(pairs)

    return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=unique)


def test_json_is_strict_and_whole(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run(*TINY, *WITH_ROOFS, f"--benchmark_out={out}", "--benchmark_repetitions=2")
    assert done.returncode == 0, done.stderr
    result = strict_json(out.read_text())
    context = result["context"]
    for key in (
        "roofbench_version",
        "device",
        "threads",
        "seed",
        "torch_version",
        "optimized",
        "roof_read",
        "roof_fp32",
    ):
        assert context[key], key
    rows = result["benchmarks"]
    singles = [row for row in rows if row["run_type"] == "iteration"]
    assert {row["name"] for row in singles} == {
        f"matmul/impl:eager/dtype:{dtype}/n:{n}" for dtype in ("fp32", "bf16") for n in (16, 32)
    }
    assert {row["aggregate_name"] for row in rows if row["run_type"] == "aggregate"} == {
        "mean",
        "median",
        "stddev",
        "cv",
    }
    for row in singles:
        assert row["time_unit"] == "us"
        assert row["iterations"] == 1
        assert row["samples"] == 5
        assert (row["impl"], row["n"]) == ("eager", int(row["name"].split("n:")[1]))
        assert row["cache"], "a default, which names leave out"
        assert 0 < row["min_ms"] <= row["real_time"] / 1e3 <= row["p95_ms"]
        assert row["FLOP/s"] == pytest.approx(
            2 * int(row["name"].split("n:")[1].split("/")[0]) ** 3 / row["real_time"] * 1e6
        )
    assert not (tmp_path / "out.json.part").exists()


def test_all_cases_have_the_unit_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    """One unit lets compare.py, which shows two decimals, show more of a case of microseconds than 0."""
    out = tmp_path / "out.json"
    assert run(*TINY, f"--benchmark_out={out}", "--benchmark_time_unit=ns").returncode == 0
    for row in strict_json(out.read_text())["benchmarks"]:
        assert row["time_unit"] == "ns"
        assert row["min_ms"] * 1e6 <= row["real_time"] <= row["p95_ms"] * 1e6


def test_the_console_and_the_reports_write_figures_alike(run: Run, tmp_path: Path) -> None:
    """The same unit, and the same three digits but for zeros at the end and for how halves are rounded."""
    out = tmp_path / "out.json"
    done = run(*TINY, *WITH_ROOFS, f"--benchmark_out={out}")
    assert done.returncode == 0, done.stderr
    table = subprocess.run([ROOT / "tools" / "report", "table", out], capture_output=True, text=True, check=True).stdout
    rows = {line.split()[0]: line for line in table.splitlines() if line.startswith("matmul/")}
    compared = 0
    for line in done.stdout.splitlines():
        if not line.startswith("  impl:"):
            continue
        name, cells = line.split(maxsplit=1)
        written = [(float(number), unit) for number, unit in re.findall(r"([\d.]+) (\S+)", rows[f"matmul/{name}"])]
        for cell in re.split(r" {2,}", cells.strip())[:3]:
            number, unit = cell.split()
            last_digit = 10.0 ** -len(number.partition(".")[2])
            near = [value for value, of in written if of == unit and abs(value - float(number)) < 1.01 * last_digit]
            assert near, f"{cell}: {rows[f'matmul/{name}']}"
            compared += 1
    assert compared >= 3


def test_aggregates_hold_the_cpu_time_of_a_step(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run(*TINY, f"--benchmark_out={out}", "--benchmark_repetitions=3")
    rows = strict_json(out.read_text())["benchmarks"]
    for name in {row["run_name"] for row in rows}:
        cpu = [row["cpu_time"] for row in rows if row["run_name"] == name and row["run_type"] == "iteration"]
        mean = next(row for row in rows if row["run_name"] == name and row.get("aggregate_name") == "mean")
        assert mean["cpu_time"] == pytest.approx(sum(cpu) / len(cpu), rel=1e-6)


def test_csv_has_the_union_of_all_counters(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = run(
        "--benchmark_filter=^(harness_overhead|copy/impl:stream/bytes:65536|mlp/dtype:fp32/steps:2/layers:4/batch:8/d:16)",
        "--suite=quick",
        "--axis=mlp.d=16",
        "--axis=mlp.batch=8",
        "--benchmark_min_time=3x",
        f"--benchmark_out={out}",
        "--benchmark_out_format=csv",
    )
    assert done.returncode == 0, done.stderr
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    by_family = {row["name"].split("/")[0]: row for row in rows}
    assert by_family["harness_overhead"]["overhead_ns"]
    assert by_family["harness_overhead"]["forward_ms"] == ""
    assert by_family["mlp"]["forward_ms"]
    assert by_family["mlp"]["backward_ms"]
    assert (by_family["mlp"]["impl"], by_family["mlp"]["d"]) == ("eager", "16"), "axes, also those at their defaults"
    assert None not in rows[0], "a row is longer than the header"


def test_journal_has_every_sample(run: Run, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    assert run(*TINY, *WITH_ROOFS, f"--journal={journal}").returncode == 0
    head, *lines = [strict_json(line) for line in journal.read_text().splitlines()]
    assert head["schema"] == "roofbench-journal-1"
    assert head["context"]["threads"]
    assert len(lines) == 4
    for line in lines:
        assert line["verdict"] == "measured"
        assert len(line["samples_s"]) == 5
        assert sum(chunk["samples"] for chunk in line["chunks"]) == 5
        assert len(line["roof"]["ratios"]) == len(line["chunks"])


def test_skipped_cases_are_rows_with_their_reason(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run("--benchmark_filter=matmul/impl:eager/dtype:tf32/n:256", f"--benchmark_out={out}")
    assert done.returncode == 0, "what the machine cannot do is no failure"
    (row,) = strict_json(out.read_text())["benchmarks"]
    assert row["error_occurred"]
    assert re.fullmatch(
        r"skipped: tf32 is a CUDA precision \(memory: .* MiB predicted, .* GiB free\)", row["error_message"]
    )
    assert "skipped: tf32" in done.stdout


def test_too_large_a_case_names_both_figures(run: Run) -> None:
    done = run("--benchmark_filter=matmul/impl:eager/dtype:fp32/n:4000000", "--axis=matmul.n=4000000")
    assert re.search(
        r"needs more memory than is free \(memory: .* TiB predicted, .* GiB free\)", re.sub(r"\s+", " ", done.stdout)
    ), done.stdout


def test_console_fits_120_columns_and_has_no_colour_in_a_pipe(run: Run) -> None:
    done = run(*TINY, *WITH_ROOFS, "--suite=full")
    assert "\033" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 120
    assert done.stderr == "", "no progress where standard error is no terminal"


def test_colour_on_demand_and_no_color(run: Run) -> None:
    assert "\033[" in run(*TINY, "--benchmark_color=true").stdout
    assert "\033[" not in run(*TINY, "--benchmark_color=true", NO_COLOR="1").stdout


def test_the_table_ends_with_where_to_read_on(run: Run, tmp_path: Path) -> None:
    """The figures of the whole are those of tools/report, which reads what the run wrote."""
    out, journal = tmp_path / "out.json", tmp_path / "run.jsonl"
    for flags, file in (
        ((), None),
        ((f"--benchmark_out={out}",), out),
        ((f"--journal={journal}",), journal),
        ((f"--benchmark_out={tmp_path}/out.csv", "--benchmark_out_format=csv"), None),
    ):
        last = run(*TINY, *flags).stdout.splitlines()[-1]
        if file is None:
            assert "tools/report" not in last
        else:
            assert last == f"tools/report summary {file}   fastest implementations, growth, precisions"


def test_every_result_says_what_its_names_mean(run: Run, tmp_path: Path) -> None:
    out, journal = tmp_path / "out.json", tmp_path / "run.jsonl"
    assert run(*TINY, f"--benchmark_out={out}", f"--journal={journal}").returncode == 0
    contract = strict_json(strict_json(out.read_text())["context"]["contract"])
    assert strict_json(journal.read_text().splitlines()[0])["contract"] == contract
    described = strict_json(run("--describe=json").stdout)
    assert contract["schema"] == described["schema"] == "roofbench-contract-1"
    assert contract["counters"] == described["counters"]
    (matmul,) = contract["families"]
    assert matmul in described["families"], "the families of the run alone"
    assert {"name", "unit", "better", "threshold", "noisy", "meaning", "absent"} == set(contract["counters"][0])
    assert [counter["name"] for counter in contract["counters"]][:2] == ["time", "FLOP/s"]


def test_unwritable_output_is_refused_before_anything_runs(run: Run, tmp_path: Path) -> None:
    for flag in ("--benchmark_out", "--journal"):
        path = tmp_path / "no" / "such" / "folder.json"
        done = run(*TINY, f"{flag}={path}")
        assert done.returncode == 2
        assert str(path) in done.stderr
        assert "No such file or directory" in done.stderr


def test_an_old_result_survives_a_refused_run(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("precious")
    assert run("--benchmark_filter=(", f"--benchmark_out={out}").returncode == 2
    assert out.read_text() == "precious"


def test_full_disk_is_an_error(run: Run, tmp_path: Path) -> None:
    done = run(*TINY, "--journal=/dev/full")
    assert done.returncode == 2
    assert "/dev/full" in done.stderr


def test_the_list_as_json_runs_nothing(run: Run) -> None:
    done = run("--benchmark_list_tests=json", "--benchmark_filter=^gelu/dtype:bf16", "--suite=quick")
    assert done.returncode == 0
    listed = json.loads(done.stdout)
    assert listed
    for case in listed:
        assert (case["axes"]["impl"], case["axes"]["dtype"]) == ("eager", "bf16")
        assert "impl:" not in case["name"]


def test_a_program_of_somebody_else_speaks_under_its_own_name(program: Path) -> None:
    theirs = program.with_name("planted")
    told = subprocess.run([theirs, "--version"], capture_output=True, text=True, check=False)
    assert re.fullmatch(r"planted, with roofbench \d.*\n", told.stdout)
    refused = subprocess.run([theirs, "--nonsense"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.startswith("planted: unknown flag")
    axes = subprocess.run([theirs, "--list_axes"], capture_output=True, text=True, check=False)
    assert axes.returncode == 0
    assert "unverified" not in axes.stdout, "those kernels are ours"


def test_version(run: Run) -> None:
    done = run("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"roofbench \d+\.\d+\.\d+.*LibTorch .*\n", done.stdout)


def test_the_context_says_what_ran_and_where(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    flags = ("--filter=matmul/impl:eager/dtype:fp32", "--axis=matmul.n=16", "--benchmark_min_time=3x", "--suite=quick")
    assert run(*flags, f"--benchmark_out={out}").returncode == 0
    context = json.loads(out.read_text())["context"]
    assert "--axis=matmul.n=16" in context["command_line"]
    for key in (
        "compiler",
        "onednn_version",
        "kernel",
        "processor",
        "cpu_governor",
        "turbo",
        "smt_siblings",
        "numa_nodes",
        "cpu_quota",
        "clock_source",
        "huge_pages",
    ):
        assert context[key], key
    assert re.fullmatch(r"[\d.]+ % while the roofs were measured", context["other_load"])
    assert re.fullmatch(r"[\d.]+ [MGT]B/s to [\d.]+ [MGT]B/s while the roofs were measured", context["memory_speed"])
