# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/report, as tests type it."""

from __future__ import annotations

import csv
import io
import shlex

import pytest
from roofreport.cli import main


class Report:
    """Each call runs a verb and checks its exit status; `error` is what the last one wrote to standard error."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.error = ""

    def __call__(self, *arguments: object, status: int = 0) -> str:
        """Its standard output."""
        assert main([str(argument) for argument in arguments]) == status
        seen = self._capsys.readouterr()
        self.error = seen.err
        return seen.out

    def refused(self, *arguments: object, status: int = 2) -> str:
        """The reason."""
        self(*arguments, status=status)
        return self.error

    def rows(self, *arguments: object) -> list[dict[str, str]]:
        """The rows of its table, read as CSV."""
        return list(csv.DictReader(io.StringIO(self(*arguments, "--format=csv"))))

    def named_command(self, *arguments: object, status: int = 0) -> list[str]:
        """That of compare.py, which a comparison names."""
        (line,) = [line for line in self("compare", *arguments, status=status).splitlines() if "compare.py: " in line]
        return shlex.split(line.removeprefix("compare.py: "))
