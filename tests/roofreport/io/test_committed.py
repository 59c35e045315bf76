# SPDX-License-Identifier: Apache-2.0
"""The records in results/atlas/ can be read, and repeated: each names its commit and its command. So can the published
figures, which stand there once.
"""

from __future__ import annotations

import re
from pathlib import Path

import builders
import pytest
from reports import Report
from roofreport.compare.machine_record import MOST_BYTES
from roofreport.history.record import moment
from roofreport.io.load import load
from roofreport.render import atlas

_ATLAS = builders.ROOT / "results" / "atlas"
RECORDS = sorted(_ATLAS.glob("*.jsonl"))
# Measured by a program that was built from a copy of the sources without their history.
WITHOUT_REVISION = {"epyc-zen5-2-cores"}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_says_where_it_is_from_and_is_small(path: Path, report: Report) -> None:
    result = load(path)
    assert path.stat().st_size <= MOST_BYTES
    assert result.cases and moment(result.context["started"])
    revision = result.context["roofbench_revision"]
    is_known = path.stem not in WITHOUT_REVISION
    assert bool(re.fullmatch("[0-9a-f]{12,40}", revision)) == ("command_line" in result.context) == is_known
    assert "read" in report("machine", path)


def test_machines_of_the_atlas_stand_side_by_side(report: Report) -> None:
    out = report("machine", *RECORDS)
    assert all(f"[{place}]" in out for place in range(1, len(RECORDS) + 1))


def test_a_published_figure_has_its_source_and_stands_once() -> None:
    rows = atlas.published(_ATLAS)
    assert all(row["figure"] > 0 and row["what"] and row["hardware"] and row["source"] for row in rows)
    figures = [(row["figure"], row["unit"]) for row in rows]
    assert len(set(figures)) == len(figures)
    elsewhere = (builders.ROOT / "docs" / "published.md").read_text()
    assert not [row for row in rows if row["unit"] == "tokens/s" and f"{row['figure']:g} tok" in elsewhere]


def test_the_tables_mark_what_is_measured_and_what_is_published(tmp_path: Path) -> None:
    lines = atlas.lines(_ATLAS)
    assert lines[0].split(" | ")[0] == "| machine"
    assert sum(line.startswith(tuple(f"| {path.stem} |" for path in RECORDS)) for line in lines) == len(RECORDS)
    assert any(line.startswith("| published |") for line in lines)
    assert atlas.lines(tmp_path) == []
