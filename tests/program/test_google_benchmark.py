# SPDX-License-Identifier: Apache-2.0
"""The program next to an ordinary one of Google Benchmark, built with the same release: flags, files, exit statuses."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest
from built_program import BIN, PROGRAM, ROOT, TINY

PLAIN = BIN / "ordinary_program"
PAGE = ROOT / "docs" / "google_benchmark.md"
# One case of ours that is measured, and one that is skipped, for the time that its step takes.
OURS = (
    *(flag for flag in TINY if not flag.startswith("--axis=matmul.n=")),
    *("--axis=matmul.n=16,4096", "--max_step_time=0.001", "--check=off"),
)
COMPARE_PY = Path("/usr/share/benchmark/compare.py")


def _run(program: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *flags], capture_output=True, text=True, check=False, timeout=600)


def _plain(*flags: str) -> subprocess.CompletedProcess[str]:
    return _run(PLAIN, *flags)


def _ours(*flags: str) -> subprocess.CompletedProcess[str]:
    return _run(PROGRAM, *OURS, *flags)


def _json(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The JSON and the CSV of both programs, of three repetitions."""
    folder = tmp_path_factory.mktemp("files")
    for name, start in (("plain", _plain), ("ours", _ours)):
        for form in ("json", "csv"):
            flags = (f"--benchmark_out={folder / name}.{form}", f"--benchmark_out_format={form}")
            done = start("--benchmark_repetitions=3", *flags)
            assert done.returncode == 0, done.stderr
    return {path.name: path for path in folder.iterdir()}


def _keys(rows: Sequence[dict[str, Any]], kind: str) -> list[str]:
    """Of the first row of a kind, in their order, without counters."""

    def is_kind(row: dict[str, Any]) -> bool:
        unmeasured = "error_message" in row or "skip_message" in row
        return unmeasured if kind == "unmeasured" else not unmeasured and row["run_type"] == kind

    row = next(row for row in rows if is_kind(row))
    last = list(row).index("time_unit") + 1
    return [*list(row)[:last], *(["label"] if "label" in row else [])]


@pytest.mark.parametrize("kind", ["iteration", "aggregate"])
def test_rows_have_the_keys_of_a_plain_program(files: dict[str, Path], kind: str) -> None:
    plain, ours = (_json(files[f"{name}.json"])["benchmarks"] for name in ("plain", "ours"))
    assert _keys(ours, kind) == _keys(plain, kind)


def test_the_context_has_the_keys_of_a_plain_program(files: dict[str, Path]) -> None:
    plain, ours = (_json(files[f"{name}.json"])["context"] for name in ("plain", "ours"))
    assert list(plain) == [key for key in ours if key in plain]
    assert "contract" not in ours


def test_a_case_without_figures_says_why_as_the_release_does(files: dict[str, Path]) -> None:
    """Releases after 1.7 distinguish a skipped case from a failed one."""
    ours = _json(files["ours.json"])["benchmarks"]
    keys = _keys(ours, "unmeasured")
    said = {"error_occurred", "error_message"} if _is_1_7() else {"skipped", "skip_message"}
    assert said < set(keys)
    assert set(keys) - said == set(_keys(ours, "iteration")) - {"label"}


def _is_1_7() -> bool:
    return "library_version" not in json.loads(_plain("--benchmark_format=json").stdout)["context"]


def test_csv_has_the_columns_of_a_plain_program(files: dict[str, Path]) -> None:
    # A plain one writes a text about the machine before them.
    plain = [line for line in files["plain.csv"].read_text().splitlines() if line.startswith("name,")]
    with files["ours.csv"].open(newline="") as file:
        header, *rows = csv.reader(file)
    columns = next(csv.reader(plain))
    assert columns[-1] == "figure"
    assert header[: len(columns) - 1] == columns[:-1]
    assert {len(row) for row in rows if row[8] != "true"} == {len(header)}


def test_pandas_reads_the_files(files: dict[str, Path]) -> None:
    from_json = pandas.json_normalize(_json(files["ours.json"])["benchmarks"])
    from_csv = pandas.read_csv(files["ours.csv"])
    assert list(from_json["name"]) == list(from_csv["name"])
    both = from_json["real_time"] > 0
    assert both.sum() == 2 * (3 + 4)
    assert list(from_csv["samples"][both]) == list(from_json["samples"][both])


def test_jq_reads_the_file(files: dict[str, Path]) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    command: list[str | Path] = ["jq", "-r", _command_of_page("jq"), files["ours.json"]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [row for row in _json(files["ours.json"])["benchmarks"] if row.get("aggregate_name") == "median"]
    shown = [line.split() for line in done.stdout.splitlines()]
    assert [(float(time), name) for time, name in shown] == [(row["real_time"], row["run_name"]) for row in rows]


def _command_of_page(program: str) -> str:
    """The quoted part of a command of the page."""
    return next(line for line in PAGE.read_text().splitlines() if line.startswith(f"{program} ")).split("'")[1]


@pytest.mark.parametrize("mode", ["benchmarks", "filters", "benchmarksfiltered"])
def test_compare_py_takes_the_only_file(files: dict[str, Path], tmp_path: Path, mode: str) -> None:
    if not COMPARE_PY.exists():
        pytest.skip("compare.py is not installed (Debian: libbenchmark-tools)")
    path = str(files["ours.json"])
    arguments = {
        "benchmarks": [path, path],
        "filters": [path, "impl:eager/dtype:fp32/n:16", "impl:onednn/dtype:fp32/n:16"],
        "benchmarksfiltered": [path, "n:16", path, "n:4096"],
    }
    command = [sys.executable, str(COMPARE_PY), mode, *arguments[mode]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "matmul" in done.stdout


# Flags, and what they give with both programs: "accepted", or the exit status of a refusal.
FLAGS = [
    "--benchmark_color=true",
    "--benchmark_context=a=b",
    "--benchmark_counters_tabular=true",
    "--benchmark_display_aggregates_only=true",
    "--benchmark_dry_run=true",
    "--benchmark_enable_random_interleaving=true",
    "--benchmark_filter=nothing_has_this_name",
    "--benchmark_filter=(",
    "--benchmark_format=csv",
    "--benchmark_format=json",
    "--benchmark_format=xml",
    "--benchmark_list_tests=true",
    "--benchmark_min_time=0.01",
    "--benchmark_min_time=3x",
    "--benchmark_min_warmup_time=0.01",
    "--benchmark_out=/no/such/folder/out.json",
    "--benchmark_out_format=console",
    "--benchmark_perf_counters=CYCLES",
    "--benchmark_repetitions=2",
    "--benchmark_repetitions=many",
    "--benchmark_report_aggregates_only=true",
    "--benchmark_time_unit=ms",
    "--benchmark_time_unit=weeks",
    "--v=1",
    "--help",
    "--no_such_flag",
    "a_word",
]


def _rows_of_page() -> dict[str, list[str]]:
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines()]
    return {cells[0].replace("\\|", "|"): cells[1:] for cells in rows if re.match("--[a-z]|a_word", cells[0])}


def test_the_page_lists_every_flag() -> None:
    assert list(_rows_of_page()) == FLAGS


@pytest.mark.slow
@pytest.mark.parametrize("flag", FLAGS)
def test_exit_statuses_are_those_of_the_page(flag: str) -> None:
    """Columns: release 1.7, 1.9, roofbench, reason. A status that differs from both releases has a reason."""
    of_1_7, of_1_9, ours, reason = _rows_of_page()[flag]
    plain = of_1_7 if _is_1_7() else of_1_9
    assert str(_plain(flag).returncode) == plain
    chosen = [*OURS, flag] if not flag.startswith("--benchmark_filter") else [flag]
    assert str(_run(PROGRAM, *chosen).returncode) == ours
    assert (ours in (of_1_7, of_1_9)) or reason
