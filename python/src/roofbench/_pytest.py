# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: the fixture and the mark `roofbench`, records, and an exit status that gates."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from roofbench._result import Result

_MARK = "roofbench(**options): options of measure for the test, as cache='warm'; every test with the fixture has it"
_XDIST = (
    "roofbench: tests of several processes would take the processors from each other; measure without -n, as with"
    " `pytest -m roofbench -n0`, and run the others with -m 'not roofbench'"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("roofbench")
    group.addoption("--roofbench-journal", type=Path, metavar="FILE", help="record, a line for each measured test")
    group.addoption("--roofbench-gate", metavar="STORE", help="fail if slower than this history (needs roofreport)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)
    config.pluginmanager.register(Measured(config), "roofbench_measured")
    out, store = config.getoption("--roofbench-journal"), config.getoption("--roofbench-gate")
    if (out or store) and config.getoption("numprocesses", None):
        raise pytest.UsageError(_XDIST)
    if out and not out.resolve().parent.is_dir():
        raise pytest.UsageError(f"--roofbench-journal={out}: there is no such folder")
    if store and not all(map(importlib.util.find_spec, ("roofreport", "sqlalchemy"))):
        how = "pip install '.[history]' in a checkout of roofbench"
        raise pytest.UsageError(f"--roofbench-gate needs the reports, roofreport: {how}")
    if store:
        from roofreport.errors import UnusableInputError
        from roofreport.history.store import open_store

        try:
            with open_store(store):
                pass
        except UnusableInputError as error:  # before anything is measured
            raise pytest.UsageError(str(error)) from None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "roofbench" in getattr(item, "fixturenames", ()):
            item.add_marker("roofbench")


class Bench:
    """Called as `roofbench.measure` is; anything else of the package is an attribute. The row has the test's id, and a
    further call in one test has its `name` too. A red row fails the test."""

    def __init__(self, test: str, options: dict[str, Any], record: Callable[[str, Result], None]) -> None:
        self._test, self._options, self._record = test, options, record
        self._names: set[str] = set()

    def __call__(self, fn: Callable[..., Any], *args: Any, name: str = "", **options: Any) -> Result:
        __tracebackhide__ = True
        from roofbench._measure import measure

        key = f"{self._test}/{name}" if name else self._test
        if key in self._names:
            raise ValueError(f"{key} is measured twice: give each call its name=…")
        self._names.add(key)
        result: Result = measure(fn, *args, name=key, **{**self._options, **options})
        self._record(key, result)
        if result.failure:
            pytest.fail(f"roofbench: {result.failure}")
        return result

    measure = __call__

    def __getattr__(self, name: str) -> Any:
        import roofbench

        return getattr(roofbench, name)


class Measured:
    """The results of the session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._results: dict[str, Result] = {}
        self._said = ""

    @pytest.fixture
    def roofbench(self, request: pytest.FixtureRequest) -> Bench:
        """Measures a callable: roofbench(fn, *args, work=…, reference=…)."""
        if hasattr(self._config, "workerinput"):
            pytest.fail(_XDIST, pytrace=False)
        options: dict[str, Any] = {}
        for mark in reversed(list(request.node.iter_markers("roofbench"))):
            options |= mark.kwargs
        return Bench(request.node.nodeid, options, self._results.__setitem__)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        out, store = self._config.getoption("--roofbench-journal"), self._config.getoption("--roofbench-gate")
        if not self._results or not (out or store):
            return
        with tempfile.TemporaryDirectory() as folder:
            path = out or Path(folder) / "record.jsonl"
            self._write(path)
            status = self._gate(path, store) if store else 0
        if status and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR if status == 2 else pytest.ExitCode.TESTS_FAILED

    def _write(self, path: Path) -> None:
        from roofbench import _result, _runner

        lines = [result.line() for result in self._results.values()]
        _result.write_record(path, _runner.facts_of("pytest", self._config.rootpath), [], lines)

    def _gate(self, path: Path, store: str) -> int:
        from roofreport import cli

        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = cli.main(["gate", str(path), f"--store={store}"])
        self._said = said.getvalue()
        return status

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._results:
            terminalreporter.section("roofbench")
            for result in self._results.values():
                terminalreporter.line(repr(result))
        if self._said:
            terminalreporter.section("roofbench: gate")
            terminalreporter.line(self._said.rstrip())
