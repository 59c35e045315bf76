# SPDX-License-Identifier: Apache-2.0
"""The runs in results/ can be repeated: each file names the commit that it was measured with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import builders
import pytest

# Measured by a program that was built from a copy of the sources without their history, and kept for its old names.
WITHOUT_REVISION = {"2026-11-20.json"}
COMMITTED = sorted((builders.ROOT / "results").glob("*/*.json"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_committed_result_names_its_commit(path: Path) -> None:
    revision = json.loads(path.read_text())["context"]["roofbench_revision"]
    assert bool(re.fullmatch("[0-9a-f]{12,40}", revision)) == (path.name not in WITHOUT_REVISION)
