# SPDX-License-Identifier: Apache-2.0
"""The findings of a run in one text."""

from __future__ import annotations

import json
from pathlib import Path

import builders
import pytest
from reports import Report
from roofreport.io.load import record_text


def _rows() -> list[dict[str, object]]:
    sweep = [
        builders.row(f"matmul/impl:eager/dtype:fp32/n:{n}", 100.0 + (n / 256) ** 3) for n in (256, 512, 1024, 2048)
    ]
    return [
        *sweep,
        builders.row("matmul/impl:onednn/dtype:fp32/n:256", 50.5, roof=0.4),
        builders.generation("llama", "bf16", 50.0, 4e9),
        builders.generation("llama", "int8", 100.0, 2e9),
        builders.error_row("matmul/impl:graph/dtype:fp32/n:256", "skipped: no GPU"),
    ]


def test_the_three_parts(tmp_path: Path, report: Report) -> None:
    lines = report("summary", builders.write_json(tmp_path / "a.json", _rows())).splitlines()
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert [title.split(" ")[0] for title in titles] == ["Fastest", "Which", "Growth"]
    fastest = next(line for line in lines if "matmul/dtype:fp32/n:256" in line)
    for part in ("onednn", "50.5 ms", "40.0 % of the roof, 60.0 % left", "2.00x eager"):
        assert part in fastest
    assert "  fastest here: int8, 2.00x the tokens/s of bf16 at 0.50 of its bytes" in lines
    assert next(line for line in lines if line.startswith("  int8")).split()[1:3] == ["80", "ms"]
    assert "expected n^3; overhead-bound up to n=512" in lines[-1]
    assert lines[-1].startswith("  matmul/impl:eager/dtype:fp32: n^")


def _changed(rows: list[dict[str, object]], part: str, **changes: float | None) -> list[dict[str, object]]:
    """Those with `part` in their names have other counters, or, with None, lack them."""
    changed = [row | changes if part in str(row["name"]) else row for row in rows]
    return [{key: value for key, value in row.items() if value is not None} for row in changed]


def test_rows_whose_intervals_overlap_get_no_ranking(tmp_path: Path, report: Report) -> None:
    rows = _changed(_rows(), "eager", noisy=1.0, ci=1.1)
    rows = _changed(rows, "int8", samples=1.0, ci=None)
    path = builders.write_json(tmp_path / "a.json", rows)
    out = report("summary", path)
    assert "no ranking: eager: noisy (ci >100 %)" in out
    assert "no ranking: int8: 1 sample" in out
    assert "no fit of n; 4 of 4 points are in doubt and left out: noisy\n" in out
    assert "2.00x" not in out
    out = report("table", path)
    assert "fastest: matmul/dtype:fp32/n:256: no ranking: eager: noisy (ci >100 %)" in out
    assert "llama/new:8: no ranking: int8: 1 sample" in out


def test_a_lead_beyond_the_intervals_of_rows_in_doubt_is_none(tmp_path: Path, report: Report) -> None:
    rows = _changed(_rows(), "eager", noisy=1.0, ci=0.2)
    rows = _changed(rows, "int8", samples=2.0, ci=None)
    out = report("summary", builders.write_json(tmp_path / "a.json", rows))
    assert "no ranking: eager: noisy (ci 20 %)" in out and "no ranking: int8: 2 samples" in out


def test_points_in_doubt_are_left_out_of_a_fit(tmp_path: Path, report: Report) -> None:
    sweep = [builders.row(f"matmul/impl:eager/dtype:fp32/n:{n}", (n / 256) ** 3) for n in (256, 512, 1024, 2048)]
    sweep[1] |= {"real_time": 500.0, "disturbed": 1.0}
    out = report("summary", builders.write_json(tmp_path / "a.json", sweep))
    assert "n^3.00 (3.00 to 3.00), expected n^3; 1 of 4 points is in doubt and left out: disturbed" in out
    sweep[2]["real_time"] = 1.0
    out = report("summary", builders.write_json(tmp_path / "a.json", sweep))
    assert "no exponent of n: its interval is wide (-" in out and "n^" not in out.replace("expected n^3", "")


@pytest.mark.parametrize(("time", "said"), [(1.02, "no ranking: their intervals overlap"), (1.2, "1.20x eager")])
def test_a_lead_within_the_intervals_is_none(time: float, said: str, tmp_path: Path, report: Report) -> None:
    rows = [
        builders.row("norm/impl:eager/d:1", time, ci=0.02),
        builders.row("norm/impl:native/d:1", 1.0, ci=0.01),
    ]
    assert said in report("summary", builders.write_json(tmp_path / "a.json", rows))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("table RUN --output=RUN", "--output=RUN is the file of RUN, which is read; choose another name"),
        ("machine RUN --html=./RUN", "is the file of RUN, which is read"),
        ("roofline RUN --svg=a --html=a", "--svg=a is the file of --html; choose another name"),
        ("table RUN --training --columns=case", "--training has a table of its own: omit --columns"),
        ("scaling RUN --axis=matmul.dd", "no case has the axis matmul.dd; there are "),
        ("scaling RUN --axis=matmul.m", "matmul.m: fewer than 3 measured points"),
    ],
)
def test_what_would_lose_or_ignore_something_is_refused(
    command: str, why: str, tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = builders.write_json(Path("RUN"), _rows())
    before = run.read_bytes()
    assert why in report.refused(*command.split())
    assert run.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["RUN"]


def test_files_of_one_run_are_one_process(tmp_path: Path, report: Report) -> None:
    """As the journal of a run and its JSON are, which lie in one folder."""
    rows = [builders.row("norm/impl:eager/d:1", 2.0), builders.row("norm/impl:native/d:1", 1.0)]
    as_json = builders.write_json(tmp_path / "run.json", rows)
    journal = tmp_path / "run.jsonl"
    header, *lines = map(json.loads, record_text(as_json, as_json.read_text()).splitlines())
    del header["converted_from"]
    lines[0]["median_s"] *= 1 + 1e-15
    journal.write_text("".join(json.dumps(one) + "\n" for one in (header, *lines)))
    for verb in ("summary", "spread"):
        alone = report(verb, journal)
        assert report(verb, as_json, journal, as_json) == alone
        assert f"{journal}: {as_json} is of the same run, and left out" in report.error
    report("compare", as_json, journal)
    assert f"{as_json} and {journal} are of the same run" in report.error
    other = builders.write_json(tmp_path / "other.json", _changed(rows, "eager", real_time=2.1))
    assert report("summary", as_json, other) != report("summary", as_json)
    assert "same run" not in report.error


def test_several_files_are_processes_of_one_machine(tmp_path: Path, report: Report) -> None:
    paths = [
        builders.write_json(
            tmp_path / f"{i}.json",
            [builders.row("norm/impl:eager/d:1", 2.0), builders.row("norm/impl:native/d:1", time)],
        )
        for i, time in enumerate((1.0, 1.5, 4.0))
    ]
    (overlapping,) = [line for line in report("summary", *paths).splitlines() if "norm/d:1" in line]
    assert "no ranking: their processes overlap" in overlapping
    (fastest,) = [line for line in report("summary", *paths[:2]).splitlines() if "norm/d:1" in line]
    assert "native" in fastest and "1.25 ms" in fastest and "1.60x eager" in fastest
    elsewhere = builders.write_json(tmp_path / "other.json", host_name="elsewhere")
    report("summary", paths[0], elsewhere, status=2)


def test_nothing_to_choose_from(tmp_path: Path, report: Report) -> None:
    assert report("summary", builders.write_json(tmp_path / "a.json")) == ""
    assert "no work was measured in two implementations" in report.error
    failed = builders.write_json(tmp_path / "b.json", [builders.error_row("a/n:1", "failed: no")])
    assert report("summary", failed) == ""
    assert all("unknown families" in line for line in report.error.splitlines())
