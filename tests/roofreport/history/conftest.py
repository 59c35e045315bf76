# SPDX-License-Identifier: Apache-2.0
"""A history to test with, in each database that there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import CannotStartError, Server
from roofreport.history.store import Store, open_store

KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    try:
        running = Server()
    except CannotStartError as why:
        pytest.skip(str(why))
    yield running
    running.stop()


def _where(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if kind == "sqlite":
        return str(folder / "history.db")
    started: Server = request.getfixturevalue("server")
    return started.new_database()


@pytest.fixture(params=KINDS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where no history is yet."""
    return _where(request.param, tmp_path, request)


@pytest.fixture
def store(where: str) -> Iterator[Store]:
    """An empty one."""
    with open_store(where, create=True) as opened:
        yield opened


@pytest.fixture
def postgres_where(server: Server) -> str:
    return server.new_database()
