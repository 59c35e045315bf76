# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest
import sites
from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> sites.Site:
    return sites.plain(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> sites.Site:
    return sites.hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def visit(chromium: Browser, plain: sites.Site) -> Iterator[sites.Visit]:
    """Opens the plain site; after each test there must be no request to another host and no error in the console."""
    with sites.visit(chromium) as made:
        yield made
        assert not made.strays(f"{plain.folder.as_uri()}/")
