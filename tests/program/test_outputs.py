# SPDX-License-Identifier: Apache-2.0
"""Console, JSON, CSV and journal of the same small run, and the program's answers to questions."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from built_program import NO_ROOFS, ROOT, TINY, WITH_ROOFS, Run


def strict_json(text: str) -> Any:
    """Refuses NaN and infinity, which Python's parser takes, and doubled keys, of which it keeps the last."""

    def refuse_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), f"doubled keys in {keys}"
        return dict(pairs)

    return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=unique)


class Written(NamedTuple):
    console: str
    errors: str
    out: Path
    result: dict[str, Any]
    journal: list[dict[str, Any]]


@pytest.fixture(scope="module")
def written(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A run with roofs that writes everything."""
    folder = tmp_path_factory.mktemp("written")
    out, journal = folder / "out.json", folder / "run.jsonl"
    context = "--benchmark_context=rack=7,note=a=b"
    done = run(*TINY, *WITH_ROOFS, f"--benchmark_out={out}", f"--journal={journal}", context)
    assert done.returncode == 0, done.stderr
    assert not (folder / "out.json.part").exists()
    lines = [strict_json(line) for line in journal.read_text().splitlines()]
    return Written(done.stdout, done.stderr, out, strict_json(out.read_text()), lines)


def test_rows_are_complete(written: Written) -> None:
    rows = written.result["benchmarks"]
    assert {row["name"] for row in rows} == {
        f"matmul/impl:{impl}/dtype:fp32/n:{n}" for impl in ("eager", "onednn") for n in (16, 32)
    }
    for row in rows:
        assert row["time_unit"] == "us"
        assert row["iterations"] == 1
        assert row["samples"] == 5
        n = int(row["name"].split("n:")[1])
        assert 0 < row["min_ms"] <= row["real_time"] / 1e3
        assert "p95_ms" not in row, "five samples do not bound it"
        assert row["FLOP/s"] == pytest.approx(2 * n**3 / row["real_time"] * 1e6)


def test_the_context_says_what_ran_and_where(written: Written) -> None:
    """That of the result, and that of the journal."""
    context = written.result["context"]
    recorded = written.journal[0]["context"]
    assert {key: context[key] for key in recorded} == recorded
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", recorded["started"])
    assert "--axis=matmul.n=16" in context["command_line"]
    assert (context["rack"], context["note"]) == ("7", "a=b")
    measured = ("roof_read", "roof_fp32")
    versions = ("roofbench_version", "torch_version", "onednn_version", "compiler", "optimized", "kernel")
    machine = ("device", "threads", "seed", "processor", "cpu_governor", "turbo", "smt_siblings", "numa_nodes")
    for key in (*measured, *versions, *machine, "cpu_quota", "clock_source", "huge_pages"):
        assert context[key], key
    assert re.fullmatch(r"[\d.]+ % while the roofs were measured", context["other_load"])
    assert re.fullmatch(r"[\d.]+ [MGT]B/s to [\d.]+ [MGT]B/s while the roofs were measured", context["memory_speed"])


def test_the_console_fits_120_columns_and_has_no_color_in_a_pipe(written: Written) -> None:
    assert "\033" not in written.console
    lines = [line for line in written.console.splitlines() if str(written.out.parent) not in line]  # of any length
    assert max(map(len, lines)) <= 120
    others = [line for line in written.errors.splitlines() if "other programs use" not in line]
    assert others == [], "progress is for terminals"


def test_the_console_and_the_reports_write_figures_alike(written: Written) -> None:
    """The same unit, and the same three digits except zeros at the end and the rounding of halves."""
    command: list[str | Path] = [ROOT / "tools" / "report", "table", written.out]
    wide = os.environ | {"COLUMNS": "400"}  # a row on one line, whatever notes a busy machine adds
    table = subprocess.run(command, capture_output=True, text=True, check=True, env=wide).stdout
    rows = {line.split()[0]: line for line in table.splitlines() if line.startswith("matmul/")}
    compared = 0
    for line in written.console.splitlines():
        if not line.startswith("  impl:"):
            continue
        name, cells = line.split(maxsplit=1)
        figures = [(float(number), unit) for number, unit in re.findall(r"([\d.]+) (\S+)", rows[f"matmul/{name}"])]
        for cell in re.split(r" {2,}", cells.strip())[:3]:
            number, unit = cell.split()
            last_digit = 10.0 ** -len(number.partition(".")[2])
            near = [value for value, of in figures if of == unit and abs(value - float(number)) < 1.01 * last_digit]
            assert near, f"{cell}: {rows[f'matmul/{name}']}"
            compared += 1
    assert compared >= 3


def test_the_journal_has_every_sample(written: Written) -> None:
    head, *lines = written.journal
    assert head["schema"] == "roofbench-journal-1"
    assert head["context"]["threads"]
    assert len(lines) == 4
    for line in lines:
        assert line["verdict"] == "measured"
        n = int(line["name"].split("n:")[1])
        assert line["axes"]["impl"] == line["name"].split("impl:")[1].split("/")[0]
        assert line["axes"]["n"] == n
        assert line["axes"]["cache"], "a default, which names leave out"
        assert len(line["samples_s"]) == 5
        assert sum(chunk["samples"] for chunk in line["chunks"]) == 5
        assert len(line["roof"]["ratios"]) == len(line["chunks"])


def test_a_journal_has_the_contract_of_its_families(written: Written, run: Run) -> None:
    contract = written.journal[0]["contract"]
    described = strict_json(run("--describe=json").stdout)
    assert contract["schema"] == described["schema"] == "roofbench-contract-1"
    assert contract["counters"] == described["counters"]
    (matmul,) = contract["families"]
    assert matmul in described["families"]
    assert {"name", "unit", "better", "threshold", "noisy", "headline", "meaning", "absent"} == set(
        contract["counters"][0]
    )
    assert [counter["name"] for counter in contract["counters"]][:2] == ["time", "FLOP/s"]


def test_the_table_ends_with_the_commands_for_more(written: Written, run: Run, tmp_path: Path) -> None:
    def commands(file: Path) -> list[str]:
        return [
            f"tools/report summary {file}   fastest implementations, growth, precisions;",
            f"tools/report table {file}     every figure",
        ]

    journal = written.out.with_name("run.jsonl")
    assert written.console.splitlines()[-2:] == commands(journal), "which has more than JSON"
    out = tmp_path / "out.json"
    assert run(*TINY, f"--benchmark_out={out}").stdout.splitlines()[-2:] == commands(out)


def test_repetitions_are_aggregated_in_the_requested_unit(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run(*TINY, f"--benchmark_out={out}", "--benchmark_repetitions=3", "--benchmark_time_unit=ns")
    assert done.returncode == 0, done.stderr
    rows = strict_json(out.read_text())["benchmarks"]
    names = {row["aggregate_name"] for row in rows if row["run_type"] == "aggregate"}
    assert names == {"mean", "median", "stddev", "cv"}
    singles = [row for row in rows if row["run_type"] == "iteration"]
    assert len(singles) == 12
    for row in singles:
        assert row["time_unit"] == "ns"
        assert row["min_ms"] * 1e6 <= row["real_time"]
    for mean in (row for row in rows if row.get("aggregate_name") == "mean"):
        cpu = [row["cpu_time"] for row in singles if row["run_name"] == mean["run_name"]]
        assert mean["cpu_time"] == pytest.approx(sum(cpu) / len(cpu), rel=1e-6)


def test_csv_has_the_union_of_all_counters(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = run(
        "--benchmark_filter=^(harness_overhead|copy/impl:stream/bytes:65536|mlp/dtype:fp32/steps:2/layers:4/batch:8/d:16)",
        *("--suite=quick", "--axis=mlp.d=16", "--axis=mlp.batch=8", "--benchmark_min_time=3x", *NO_ROOFS),
        *(f"--benchmark_out={out}", "--benchmark_out_format=csv"),
    )
    assert done.returncode == 0, done.stderr
    assert "tools/report" not in done.stdout, "which reads no CSV"
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    by_family = {row["name"].split("/")[0]: row for row in rows}
    assert by_family["harness_overhead"]["overhead_ns"]
    assert by_family["harness_overhead"]["forward_ms"] == ""
    assert by_family["mlp"]["forward_ms"]
    assert by_family["mlp"]["backward_ms"]
    assert None not in rows[0], "a row is longer than the header"


def test_color_on_demand_and_no_color(run: Run) -> None:
    assert "\033[" in run(*TINY, "--benchmark_color=true").stdout
    assert "\033[" not in run(*TINY, "--benchmark_color=true", NO_COLOR="1").stdout


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        ("--version", r"roofbench \d+\.\d+\.\d+.*LibTorch .*\n"),
        ("--list_axes", r"(?s).*\ncopy:.*\nharness_overhead:.*\nmatmul:.*\nmlp:.*"),
        ("--explain_counters", r"(?s).*\broof .*"),
        (
            "--benchmark_filter=matmul/.*fp32 --axis=matmul.n=3000 --benchmark_list_tests --suite=quick",
            r"(?s)matmul/impl:eager/dtype:fp32/n:3000\n.*",
        ),
    ],
)
def test_questions_are_answered(run: Run, flags: str, answer: str) -> None:
    done = run(*flags.split())
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(answer, done.stdout), done.stdout


def test_the_list_as_json_runs_nothing(run: Run) -> None:
    done = run("--benchmark_list_tests=json", "--benchmark_filter=^gelu/dtype:bf16", "--suite=quick")
    assert done.returncode == 0
    listed = json.loads(done.stdout)
    assert listed
    for case in listed:
        assert (case["axes"]["impl"], case["axes"]["dtype"]) == ("eager", "bf16")
        assert "impl:" not in case["name"]


def test_a_users_program_has_its_own_name_in_messages(program: Path) -> None:
    def answer(flag: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program.with_name("planted"), flag], capture_output=True, text=True, check=False)

    assert re.fullmatch(r"planted, with roofbench \d.*\n", answer("--version").stdout)
    refused = answer("--nonsense")
    assert refused.returncode == 2
    assert refused.stderr.startswith("planted: unknown flag")
    axes = answer("--list_axes")
    assert axes.returncode == 0
    assert "unverified" not in axes.stdout, "those kernels are ours"
