# SPDX-License-Identifier: Apache-2.0
"""The installed tree, once per session."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed import install_and_move


@pytest.fixture(scope="session")
def prefix(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_and_move(tmp_path_factory.mktemp("install"))
