# SPDX-License-Identifier: Apache-2.0
"""The runs in results/ can be read, and repeated: each names the commit that it was measured with."""

from __future__ import annotations

import re
from pathlib import Path

import builders
import pytest
from reports import Report
from roofreport.history.record import moment
from roofreport.io.load import load

# Measured by a program that was built from a copy of the sources without their history, and kept for its old names.
WITHOUT_REVISION = {"epyc-zen5-2-cores"}
COMMITTED = sorted((builders.ROOT / "results").glob("*.jsonl"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_a_committed_result_names_its_commit(path: Path, report: Report) -> None:
    result = load(path)
    assert result.cases and moment(result.context["started"])
    revision = result.context["roofbench_revision"]
    assert bool(re.fullmatch("[0-9a-f]{12,40}", revision)) == (path.stem not in WITHOUT_REVISION)
    assert result.cases[0].name in report("table", path)
