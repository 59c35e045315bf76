# SPDX-License-Identifier: Apache-2.0
"""Tables in every format."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import builders
import pytest
from reports import Report
from roofreport.cli import main
from roofreport.render.formats import MOST_COLUMNS

_ROWS = [
    builders.row(builders.MATMUL, 10.0),
    builders.row(builders.GEMV, 1.0),
    builders.error_row("huge/n:1", "skipped: out of memory: 80 GB"),
    builders.error_row("odd|name_{}/n:1", "failed: off by 3 & more"),
]


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return builders.write_json(tmp_path / "run.json", _ROWS)


def test_terminal(result: Path, report: Report) -> None:
    lines = report("table", result).splitlines()
    assert lines[0].split()[:3] == ["case", "median", "mean"]
    matmul = next(line for line in lines if line.startswith("matmul"))
    for part in ("10 ms", "10.1 ± 0.2 ms", "215 GFLOP/s", "50 %"):
        assert part in matmul
    assert any(line.endswith("OOM: out of memory: 80 GB") for line in lines)
    assert any("failed: off by 3 & more" in line for line in lines)


def test_columns_by_choice(result: Path, report: Report) -> None:
    lines = report("table", result, "--columns=case,roof,median").splitlines()
    assert lines[0].split() == ["case", "roof", "median"]
    assert "50 %" in lines[2] and "10 ms" in lines[2]


def test_one_sample_has_no_deviation(tmp_path: Path, report: Report) -> None:
    rows = [builders.row(builders.MATMUL, 10.0, samples=1.0, stddev_ms=0.0)]
    single = builders.write_json(tmp_path / "single.json", rows)
    row = report("table", single).splitlines()[2]
    assert "10.1 ms" in row and "±" not in row


def test_figures_in_doubt_say_so(tmp_path: Path, report: Report) -> None:
    rows = [
        builders.row(builders.MATMUL, 10.0, noisy=1.0, ci=0.4, disturbed=1.0),
        builders.row(builders.GEMV, 1.0, samples=3.0),
        builders.row(builders.COPY, 9.0),
    ]
    doubtful = builders.write_json(tmp_path / "doubtful.json", rows)
    head, _, matmul, gemv, copy, *_ = report("table", doubtful).splitlines()
    assert head.endswith("notes")
    assert matmul.endswith("noisy (ci 40 %), disturbed") and gemv.endswith("3 samples") and copy.endswith("%")
    quiet = builders.write_json(tmp_path / "quiet.json", [builders.row(builders.MATMUL, 10.0)])
    assert "notes" not in report("table", quiet)
    assert "[2] noisy (ci 40 %), disturbed" in report("table", quiet, doubtful)
    assert "noisy" not in report("table", doubtful, "--columns=case,median"), "the columns that were asked for"


def test_repeated_notes_become_marks_with_one_footer(tmp_path: Path, report: Report) -> None:
    rows = [
        builders.row(builders.MATMUL, 10.0, noisy=1.0, ci=0.4),
        builders.row(builders.GEMV, 1.0, noisy=1.0, ci=1.4),
        builders.row(builders.COPY, 9.0, disturbed=1.0),
    ]
    doubtful = builders.write_json(tmp_path / "doubtful.json", rows)
    for form in ("terminal", "markdown", "latex"):
        lines = report("table", doubtful, f"--format={form}").replace("\\", "").splitlines()
        assert sum("noisy" in line for line in lines) == 1, "in the footer"
        assert any("[a] noisy" in line for line in lines)
        assert any("[a] (ci 40 %)" in line.replace("$", "") for line in lines)
        assert any("[a] (ci >100 %)" in line.replace("$", "").replace("&gt;", ">") for line in lines)
        assert sum("disturbed" in line for line in lines) == 1
    notes = [row["notes"] for row in report.rows("table", doubtful)]
    assert notes == ["noisy (ci 40 %)", "noisy (ci >100 %)", "disturbed"], "a program reads no footer"
    assert [row["ci"] for row in report.rows("table", doubtful, "--columns=case,ci")] == ["0.4", "1.4", "0.004"]
    assert ">100 %" in report("table", doubtful, "--columns=case,ci")


def test_unknown_column_is_refused(result: Path, report: Report) -> None:
    assert "'speed'" in report.refused("table", result, "--columns=case,speed")


def test_ratio(result: Path, tmp_path: Path, report: Report) -> None:
    faster = builders.write_json(tmp_path / "b.json", [builders.row(builders.MATMUL, 5.0)])
    out = report("table", result, faster)
    assert "ratio [2]" in out
    assert "2.00x" in next(line for line in out.splitlines() if line.startswith("matmul"))
    assert "missing" in next(line for line in out.splitlines() if line.startswith("gemv"))


def test_markdown_escapes(result: Path, report: Report) -> None:
    lines = report("table", result, "--format=markdown").splitlines()
    assert lines[1].startswith("| --- | ---: |")
    assert any(r"odd\|name\_{}/n:1" in line for line in lines)
    columns = {line.replace(r"\|", "").count("|") for line in lines}
    assert len(columns) == 1


def test_latex_escapes(result: Path, report: Report) -> None:
    out = report("table", result, "--format=latex")
    assert out.startswith(r"\begin{tabular}{lr")
    assert r"odd$|$name\_\{\}/n:1" in out
    assert r"10.1 $\pm$ 0.2 ms" in out
    assert r"off by 3 \& more" in out


def test_csv_has_all_digits(result: Path, report: Report) -> None:
    rows = report.rows("table", result)
    assert float(rows[0]["median"]) == pytest.approx(0.01)
    assert float(rows[0]["FLOP/s"]) == builders.counters(builders.MATMUL, 10.0)["FLOP/s"]
    assert rows[2]["median"].startswith("OOM")


_FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(A1)", "\uff1dcmd()"]


@pytest.mark.parametrize("text", _FORMULAS)
def test_cells_and_headers_are_not_formulas(text: str, tmp_path: Path, report: Report) -> None:
    """A counter's name as well: the default columns take what matches <ref>_flop_util."""
    counter = f"{text}_flop_util"
    rows = [builders.row(f"{text}/dtype:{text}", 1.0) | {counter: 0.5, "flop_util": 0.5}]
    path = builders.write_json(tmp_path / "a.json", rows, device=text, device_kind=text)
    for format_, least in (("csv", 2), ("gpt_fast", 3)):
        cells = [cell for row in csv.reader(io.StringIO(report("table", path, f"--format={format_}"))) for cell in row]
        assert sum(cell.startswith(f"'{text}") for cell in cells) >= least
        assert not [cell for cell in cells if cell.startswith(text)]


def test_negative_numbers_are_not_formulas(tmp_path: Path, report: Report) -> None:
    path = builders.write_json(tmp_path / "a.json", [builders.row("a/n:1", 1.0) | {"change": -1.5}])
    (row,) = report.rows("table", path, "--columns=case,change")
    assert float(row["change"]) == -1.5


@pytest.mark.parametrize("name", ["[5cm]", "*[5cm]", "*", " [1pt]"])
def test_latex_does_not_take_a_name_for_an_argument(name: str, tmp_path: Path, report: Report) -> None:
    counter = f"{name}_flop_util"
    rows = [builders.row(f"{name}/n:{n}", 1.0) | {counter: 0.5} for n in (1, 2)]
    path = builders.write_json(tmp_path / "a.json", rows)
    out = report("table", path, "--format=latex")
    assert out.count("{}" + name) == 3
    assert not re.search(r"\\\\\s*[\[*]", out)
    alone = report("table", path, "--format=latex", f"--columns={counter}")
    assert not re.search(r"\\\\\s*[\[*]|hline\s*[\[*]", alone)


def test_counters_by_a_pattern_are_as_many_as_a_table_has_room_for(tmp_path: Path, report: Report) -> None:
    """Rows and counters that differ from each other made tables of their product."""
    rows = [
        builders.row(f"a/n:{n}", 1.0) | {f"x{n}_{i}_{end}": 0.5 for i in range(50) for end in ("flop_util", "mem_util")}
        for n in range(10)
    ]
    path = builders.write_json(tmp_path / "a.json", rows)
    (head, *_) = csv.reader(io.StringIO(report("table", path, "--format=csv")))
    assert len(head) <= 7 + 2 * MOST_COLUMNS


@pytest.mark.parametrize(
    "before", ["name,time\n1,2\n", "\n", "\ufeffname,metric\n", "{}", "metric,actual\n", "name,metric,actual,actual\n"]
)
def test_gpt_fast_refuses_a_file_with_other_columns(result: Path, tmp_path: Path, report: Report, before: str) -> None:
    out = tmp_path / "all.csv"
    out.write_text(before)
    assert "name another --output" in report.refused("table", result, "--format=gpt_fast", f"--output={out}")
    assert out.read_text() == before


def test_gpt_fast_appends_with_one_header(result: Path, tmp_path: Path, report: Report) -> None:
    out = tmp_path / "all.csv"
    for _ in range(2):
        report("table", result, "--format=gpt_fast", f"--output={out}")
    lines = out.read_text().splitlines()
    assert lines[0] == "name,metric,target,actual,dtype,device,arch,is_model"
    assert lines.count(lines[0]) == 1
    rows = list(csv.DictReader(lines))
    assert len(rows) == 2 * 2 * 2  # runs, cases, metrics
    assert rows[0]["metric"] == "memory_bandwidth(GB/s)"
    assert float(rows[0]["actual"]) == pytest.approx(12 * 1024**2 / 0.01 / 1e9, rel=1e-5)
    assert (rows[0]["dtype"], rows[0]["device"], rows[0]["arch"]) == ("fp32", "cpu", "Test CPU")


def test_gpt_fast_appends_in_the_columns_of_the_file(result: Path, tmp_path: Path, report: Report) -> None:
    """Earlier releases of gpt-fast's benchmark.py wrote fewer columns."""
    out = tmp_path / "all.csv"
    out.write_text("name,metric,target,actual,dtype,device,arch\nx,token_per_sec,94,90,bfloat16,cuda,A100")
    report("table", result, "--format=gpt_fast", f"--output={out}")
    header, before, *rows = csv.reader(io.StringIO(out.read_text()))
    assert header == ["name", "metric", "target", "actual", "dtype", "device", "arch"]
    assert before[-1] == "A100", "its last line had no end"
    assert {len(row) for row in rows} == {7}
    assert rows[0][4:] == ["fp32", "cpu", "Test CPU"]


def test_gpt_fast_makes_the_folder(result: Path, tmp_path: Path, report: Report) -> None:
    out = tmp_path / "new" / "results" / "all.csv"
    report("table", result, "--format=gpt_fast", f"--output={out}")
    assert out.read_text().startswith("name,metric,")


def test_unwritable_output(result: Path, tmp_path: Path) -> None:
    assert main(["table", str(result), f"--output={tmp_path / 'no' / 'folder'}"]) == 2


def test_an_unoptimized_build_is_reported(tmp_path: Path, report: Report) -> None:
    path = builders.write_json(tmp_path / "a.json", optimized="false")
    report("table", path)
    assert "not optimized" in report.error


def test_it_ends_with_the_fastest_and_with_the_precision_to_serve_in(tmp_path: Path, report: Report) -> None:
    rows = [
        builders.row("norm/impl:eager/d:1", 4.0, roof=0.2),
        builders.row("norm/impl:native/d:1", 2.0, roof=0.4),
        builders.generation("llama", "bf16", 50.0, 4e9),
        builders.generation("llama", "int4", 125.0, 1e9),
    ]
    lines = report("table", builders.write_json(tmp_path / "run.json", rows)).splitlines()
    assert lines[-2:] == [
        "fastest: norm/d:1: native, 2 ms, 40.0 % of the roof, 60.0 % left, 2.00x eager",
        "precision to serve in: generate/model:llama/new:8: int4, 125 tokens/s, 2.50x bf16 at 0.25 of its bytes; "
        "by speed alone: quality scores what it does to the text of a checkpoint",
    ]


def test_what_a_case_is_run_for_is_in_its_row(tmp_path: Path, report: Report) -> None:
    """The contract marks these counters, and a column is there where a case has it."""
    scored = {"perplexity": 12.5, "kl_mean": 0.002, "top1_agreement": 0.985, "tokens/s": 98.1}
    rows = [builders.row("quality/precision:int8/new:64", 10.0) | scored, builders.row(builders.COPY, 9.0)]
    head, _, row, copy, *_ = report("table", builders.write_json(tmp_path / "run.json", rows)).splitlines()
    assert head.endswith("tokens/s  perplexity     kl_mean  top1_agreement")
    assert row.split()[-6:] == ["tokens/s", "12.5", "0.002", "nats", "98.5", "%"]
    assert copy.startswith("copy") and "busbw" not in head
    # A contract of an earlier release marks none.
    counters = [{k: v for k, v in one.items() if k != "headline"} for one in builders.contract()["counters"]]
    older = builders.write_json(tmp_path / "old.json", rows, contract=json.dumps(builders.contract(counters=counters)))
    assert "perplexity" not in report("table", older)


def test_a_baseline_adds_a_speed_up(tmp_path: Path, report: Report) -> None:
    rows = [
        builders.row("gelu/dtype:bf16/elements:4", 6.0),  # impl:eager, which the name leaves out
        builders.row("gelu/impl:native/dtype:bf16/elements:4", 2.0),
        builders.row("gelu/impl:native/dtype:fp32/elements:4", 2.0),
        builders.row(builders.COPY, 9.0),
    ]
    path = builders.write_json(tmp_path / "run.json", rows)
    lines = list(
        csv.reader(io.StringIO(report("table", path, "--baseline=impl:eager", "--columns=case", "--format=csv")))
    )
    assert lines[0] == ["case", "over impl:eager"]
    assert [line[1] and float(line[1]) for line in lines[1:5]] == [1.0, pytest.approx(3.0), "", ""]
    assert "impl:nothing" in report.refused("table", path, "--baseline=impl:nothing")
