# SPDX-License-Identifier: Apache-2.0
"""Every export, read by the tool that it is for, or checked against that tool's published schema."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from builders import GEMV, HOSTILE, MATMUL, ROOT, error_row, row, write_json
from postgresql import Server
from roofreport.history.export import FORMATS, Choice
from roofreport.history.record import of_file
from roofreport.history.store import Store, open_store
from sqlalchemy import text

# Names that could confuse a spreadsheet, a terminal, a parser of labels or a float parser.
STRANGE = [
    *HOSTILE,
    '=HYPERLINK("http://a")/n:1',
    "+1+cmd|' /C calc'!A0/n:1",
    "@SUM(A1)/n:1",
    'back\\slash"quote/n:1',
    "# EOF/n:1",
    "лошадь/n:1",
]
LARGEST = 1e100  # that a result may have
NIGHTS = 3


def _rows(night: int) -> list[dict[str, Any]]:
    rows = [row(MATMUL, 10.0 + night), row(GEMV, 1.0) | {"FLOP/s": LARGEST, "peak_mem": 2.0**63}]
    return [*rows, error_row("layer_norm/n:1", "failed: wrong result"), *(row(name, 1.0) for name in STRANGE)]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def full(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Three nightly runs of one machine, and one of another, which is older."""
    tmp_path = tmp_path_factory.mktemp("exports")
    where = str(tmp_path / "history.db")
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("server")
        where = server.new_database()
    with open_store(where, create=True) as store:
        for night in range(NIGHTS):
            store.add(
                of_file(write_json(tmp_path / f"{night}.json", _rows(night), date=f"2026-01-0{night + 2}T02:00:00Z"))
            )
        store.add(
            of_file(
                write_json(
                    tmp_path / "gpu.json",
                    [row(GEMV, 0.1)],
                    date="2026-01-01T02:00:00Z",
                    device="NVIDIA <b>H100</b>",
                    device_kind="cuda",
                )
            )
        )
        yield store


def _export(store: Store, name: str, **choice: Any) -> bytes:
    return FORMATS[name](store, Choice(**choice))


def test_parquet_is_read_by_four_readers(full: Store, tmp_path: Path) -> None:
    import duckdb
    import pandas
    import polars
    import pyarrow.parquet

    path = tmp_path / "history.parquet"
    path.write_bytes(_export(full, "parquet"))
    count = NIGHTS * (3 + len(STRANGE)) + 1
    table = pyarrow.parquet.read_table(path)
    assert table.num_rows == count
    assert set(table["case"].to_pylist()) == {MATMUL, GEMV, "layer_norm/n:1", *STRANGE}

    by_case = {one["case"]: one for one in table.to_pylist()}
    gemv, product = by_case[GEMV], by_case[MATMUL]
    assert (gemv["family"], gemv["axis.d"], gemv["axis.n"]) == ("gemv", "4096", None)
    assert (product["axis.n"], product["axis.cache"]) == ("1024", "cold"), "also the default that a name omits"

    relation = duckdb.read_parquet(str(path))
    found = relation.filter(f"\"case\" = '{MATMUL}'").order("started").project("seconds").fetchall()
    assert [value for (value,) in found] == pytest.approx([0.010, 0.011, 0.012])

    frame = polars.read_parquet(path)
    assert frame.shape[0] == count
    failed = frame.filter(polars.col("state") == "failed")
    assert failed["seconds"].to_list() == [None] * NIGHTS
    assert failed["reason"].to_list() == ["wrong result"] * NIGHTS

    seen = pandas.read_parquet(path)
    assert seen["counter.FLOP/s"].max() == LARGEST
    assert str(seen["started"].max()) == "2026-01-04 02:00:00+00:00"
    assert set(seen["machine"]) == {"Test CPU, 2 threads", "NVIDIA <b>H100</b>, 2 threads"}


_TEXT = {"type": "string"}
_MAP = {"type": "object", "additionalProperties": {"type": ["string", "object"]}}
_UINT32, _UINT64 = ({"type": "integer", "minimum": 0, "maximum": 2**bits - 1} for bits in (32, 64))
_FLOAT32 = {"type": "number", "minimum": -3.4e38, "maximum": 3.4e38}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _fields(texts: str, **fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(texts.split(), _TEXT) | fields, "additionalProperties": False}


_COUNTS = dict.fromkeys(("cpu_count", "avail_mem_in_gb", "gpu_count", "avail_gpu_mem_in_gb"), _UINT32)
# The columns that a record may fill, from clickhouse_db_schema/oss_ci_benchmark_v3/schema.sql of pytorch/test-infra.
_V3 = _fields(
    "head_sha",
    timestamp=_UINT64,
    schema_version={"const": "v3"},
    runners=_list(_fields("name type cpu_info mem_info gpu_info gpu_mem_info", **_COUNTS, extra_info=_MAP)),
    benchmark=_fields("name mode dtype", extra_info=_MAP),
    model=_fields("name type backend", origins=_list(_TEXT), extra_info=_MAP),
    inputs=_MAP,
    dependencies=_fields("", pytorch=_fields("repo branch sha version", extra_info=_MAP)),
    metric=_fields("name", benchmark_values=_list(_FLOAT32), target_value=_FLOAT32, extra_info=_MAP),
)


def test_records_fit_the_tables_of_the_pytorch_hud(full: Store) -> None:
    records = [json.loads(line) for line in _export(full, "pytorch-hud").decode().splitlines()]
    fits = fastjsonschema.compile(_V3)
    for record in records:
        fits(record)
    times = [
        record["metric"]["benchmark_values"]
        for record in records
        if record["model"]["name"] == MATMUL and record["metric"]["name"] == "time"
    ]
    assert times == [[0.010], [0.011], [0.012]]
    gpu = next(record for record in records if record["runners"][0].get("gpu_info"))
    assert gpu["runners"][0]["gpu_info"] == "NVIDIA <b>H100</b>"
    assert len(_export(full, "pytorch-hud", last=1).splitlines()) < len(records)


def test_both_directions_go_to_github_action_benchmark_apart(full: Store) -> None:
    smaller, bigger = (
        json.loads(_export(full, f"github-action-benchmark-{way}", machine="Test")) for way in ("smaller", "bigger")
    )
    for entries in (smaller, bigger):
        assert len({entry["name"] for entry in entries}) == len(entries) > 0
        for entry in entries:
            assert {"name", "unit", "value"} <= set(entry) <= {"name", "unit", "value", "range", "extra"}
            assert all(isinstance(text, str) for key, text in entry.items() if key != "value")
            assert type(entry["value"]) in (int, float)
            assert entry["unit"] != "0 or 1", "it divides by yesterday's"
    values = {entry["name"]: entry for entry in smaller}
    assert values[f"{MATMUL}: time"]["value"] == 0.012
    assert re.fullmatch(r"± \S+", values[f"{MATMUL}: time"]["range"])
    names = {entry["name"].rsplit(": ", 1)[1] for entry in bigger}
    assert {"FLOP/s", "bytes/s", "roof"} <= names
    assert not names & {entry["name"].rsplit(": ", 1)[1] for entry in smaller}


def test_gpt_fast_has_its_columns_and_no_formula(full: Store) -> None:
    rows = list(csv.DictReader(io.StringIO(_export(full, "gpt-fast", machine="Test").decode())))
    assert list(rows[0]) == ["name", "metric", "target", "actual", "dtype", "device", "arch", "is_model"]
    matmul = next(one for one in rows if one["name"] == MATMUL and one["metric"] == "memory_bandwidth(GB/s)")
    assert matmul["dtype"] == "fp32"
    assert float(matmul["actual"]) == pytest.approx(12 * 1024**2 / 0.012 / 1e9, rel=1e-4)
    for found in rows:
        assert not any(text.startswith(("=", "+", "@", "\t")) for text in found.values()), found


def test_gpt_fast_has_no_figures_in_doubt(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "history.db"), create=True) as store:
        rows = [row(MATMUL, 12.0, noisy=1.0), row(GEMV, 9.0)]
        store.add(of_file(write_json(tmp_path / "0.json", rows)))
        names = {one["name"] for one in csv.DictReader(io.StringIO(_export(store, "gpt-fast").decode()))}
    assert names == {GEMV}


def test_a_format_without_dates_takes_the_newest_run(full: Store) -> None:
    newest, other = (
        json.loads(_export(full, "github-action-benchmark-smaller", machine=machine)) for machine in ("", "H100")
    )
    assert {entry["extra"].partition("\n")[0] for entry in newest} == {"Test CPU, 2 threads"}
    assert {entry["name"].partition(": ")[0] for entry in other} == {GEMV}
    assert json.loads(_export(full, "github-action-benchmark-smaller", machine="unknown")) == []


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_history_is_exported_too(name: str, tmp_path: Path) -> None:
    with open_store(str(tmp_path / "history.db"), create=True) as store:
        _export(store, name)


def test_the_recipes_of_other_formats_run(full: Store, tmp_path: Path) -> None:
    """The Python blocks of docs/history.md, over the Parquet file."""
    (tmp_path / "history.parquet").write_bytes(_export(full, "parquet"))
    page = Path(__file__).resolve().parents[3] / "docs" / "history.md"
    bencher, metrics = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    code = f"{bencher}\nprint('----')\n{metrics}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    written, gauges = done.stdout.split("----\n")
    assert json.loads(written)[MATMUL] == {"latency": {"value": pytest.approx((10.0 + NIGHTS - 1) * 1e6)}}
    assert "layer_norm/n:1" not in json.loads(written)
    assert gauges.splitlines()[0] == "# TYPE roofbench_case_time_seconds gauge"
    assert gauges.endswith("# EOF\n")
    assert re.search(rf'^roofbench_case_time_seconds\{{case="{MATMUL}",machine="[^"]+"\}} \S+$', gauges, re.MULTILINE)


def test_the_query_for_grafana(full: Store) -> None:
    (query,) = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/history.md").read_text(), re.DOTALL)
    macros = {
        "$__timeFilter(run.started)": "run.started BETWEEN '2026-01-03' AND '2026-02-01'",
        "'$machine'": "'Test CPU, 2 threads'",
    }
    for macro, meaning in macros.items():
        assert macro in query
        query = query.replace(macro, meaning)
    with full.database.reading() as connection:
        rows = connection.execute(text(query.replace(":", r"\:"))).all()
    assert [(metric, value) for _, metric, value in rows] == [(MATMUL, pytest.approx(0.010 + n / 1e3)) for n in (1, 2)]
