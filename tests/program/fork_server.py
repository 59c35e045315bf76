# SPDX-License-Identifier: Apache-2.0
"""Starts the program many times without loading LibTorch each time (fork_server.cc)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from built_program import BIN, PROGRAM

_LIBRARY = BIN.parent / "tests" / "libfork_server.so"
_SEPARATOR = "\x1f"


class ForkServer:
    """Each call is a run of the program's main in a process of its own. Ends with the object's `with` block."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._out, self._err = folder / "stdout", folder / "stderr"
        self._server = subprocess.Popen(
            [PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"OMP_WAIT_POLICY": "passive", **os.environ, **environment, "LD_PRELOAD": str(_LIBRARY)},
            text=True,
        )

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def run(self, *flags: str) -> subprocess.CompletedProcess[bytes]:
        """A signal that ended it is a negative status, as in `subprocess`; after five minutes that is SIGALRM."""
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(_SEPARATOR.join([str(self._out), str(self._err), *flags]) + "\n")
        self._server.stdin.flush()
        status = self._server.stdout.readline()
        assert status, "the server of forks has ended"
        return subprocess.CompletedProcess(flags, int(status), self._out.read_bytes(), self._err.read_bytes())
