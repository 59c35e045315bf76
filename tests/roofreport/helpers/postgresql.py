# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server for the tests, from the installed programs; it is reachable only through its folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from sqlalchemy import create_engine, text

_INSTALLED = Path("/usr/lib/postgresql")  # where Debian puts each release, outside PATH
_ACCOUNTS = ("postgres", "nobody")  # the server refuses to run as root


class CannotStartError(Exception):
    """The reason why the server cannot start."""


def _programs() -> Path:
    releases = sorted(_INSTALLED.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = str(releases[-1]) if releases else shutil.which("initdb")
    if not found:
        raise CannotStartError("PostgreSQL is not installed (apt-get install postgresql)")
    return Path(found).resolve().parent


def _account() -> str | None:
    """Whose process the server is; None: ours."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    account = next((name for name in _ACCOUNTS if name in known), None)
    if account is None:
        raise CannotStartError(f"PostgreSQL does not run as root, and there is no account of {' or '.join(_ACCOUNTS)}")
    return account


class Server:
    def __init__(self) -> None:
        self._bin = _programs()
        self._user = _account()
        self._folder = Path(tempfile.mkdtemp(prefix="roofbench-pg-", dir="/tmp"))
        if self._user:
            shutil.chown(self._folder, self._user)
        self._data = self._folder / "data"
        self._made = 0
        try:
            self._do(
                "initdb",
                "--username=roofbench",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
                "--wal-segsize=1",
            )
            settings = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c fsync=off"
            self._do("pg_ctl", "--wait", f"--log={self._folder}/log", f"--options={settings}", "start")
        except BaseException:
            shutil.rmtree(self._folder)
            raise

    def _do(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._bin / program, f"--pgdata={self._data}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            user=self._user,
            check=False,
        )
        if done.returncode:
            raise CannotStartError(f"{program}: {done.stderr.strip()[-300:]}")

    def url(self, name: str) -> str:
        return f"postgresql://roofbench@/{name}?host={self._folder}"

    def new_database(self) -> str:
        """The URL of a place without tables: a separate schema, which is cheap to create."""
        self._made += 1
        name = f"history_{self._made}"
        url = self.url("postgres")
        engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE SCHEMA {name}"))
        engine.dispose()
        return f"{url}&options=-csearch_path%3D{name}"

    def stop(self) -> None:
        self._do("pg_ctl", "--mode=immediate", "--wait", "stop")
        shutil.rmtree(self._folder)
