# SPDX-License-Identifier: Apache-2.0
"""The command of Google Benchmark's compare.py that shows the same pair."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from roofreport import files, project_folder
from roofreport.io import case_name
from roofreport.io.result import Case, Result, State

# Debian's libbenchmark-tools, then where upstream's own installation and a build that fetches it put the folder tools.
_PLACES = (
    "/usr/share/benchmark",
    "/usr/share/googlebenchmark/tools",
    "/usr/local/share/googlebenchmark/tools",
    "/usr/local/share/benchmark/tools",
)
_FETCHED = "build/*/_deps/benchmark-src/tools/compare.py"


def find() -> Path | None:
    """The script, if it is on this machine."""
    source = os.environ.get("FETCHCONTENT_SOURCE_DIR_BENCHMARK")
    candidates = [Path(source) / "tools/compare.py"] if source else []
    candidates += [Path(place) / "compare.py" for place in _PLACES]
    candidates += sorted(project_folder.root().glob(_FETCHED))
    on_path = shutil.which("compare.py")
    if on_path:
        candidates.append(Path(on_path))
    # It imports the package gbench from its own folder, so a lone copy does not work.
    return next((path for path in candidates if path.is_file() and (path.parent / "gbench").is_dir()), None)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roofbench"


def _readable(results: Sequence[Result]) -> Path | None:
    """The file itself, if compare.py reads it as we do: one JSON without skipped rows."""
    result = results[0]
    whole = all(case.state is State.MEASURED for case in result.cases)
    # A name that would be escaped on a terminal is left out of commands to copy from there.
    plain = str(result.path).isprintable()
    if len(results) != 1 or result.is_record or not (whole and plain):
        return None
    # A name with this suffix and one without it do not match.
    return None if case_name.MANUAL_TIME.encode() in result.path.read_bytes() else result.path


def _write(path: Path, result: Result, cases: list[Case]) -> None:
    """Measured cases alone, since compare.py takes the time 0 of a skipped one for a speed-up. Raises OSError."""
    rows = [
        {
            "name": case.name,
            "run_name": case.name,
            "run_type": "iteration",
            "repetition_index": index,
            "threads": 1,
            "iterations": 1,
            "real_time": case.seconds * 1e6,
            "cpu_time": case.cpu_seconds * 1e6,
            "time_unit": "us",  # compare.py shows whole ones
        }
        for index, case in enumerate(cases)
        if case.state is State.MEASURED
    ]
    context = {**result.context, "date": result.date}
    files.write_text(path, json.dumps({"context": context, "benchmarks": rows}, indent=1))


def _converted(results: Sequence[Result]) -> Path:
    cases: list[Case] = [case for result in results for case in result.cases]
    cases.sort(key=lambda case: case.name)
    key = "\n".join(f"{result.path.resolve()} {result.path.stat().st_mtime_ns}" for result in results)
    path = _cache() / f"compare-{hashlib.sha256(os.fsencode(key)).hexdigest()[:16]}.json"
    with files.writing_to(path):
        files.private_folder(path.parent)
        _write(path, results[0], cases)
    return path


def command(base: Sequence[Result], new: Sequence[Result]) -> str | None:
    """None where compare.py is not installed. Files that it cannot read are converted into the user's cache folder.

    Raises UnusableInputError where that cannot be written, or is not the user's alone.
    """
    script = find()
    if script is None:
        return None
    paths = [_readable(results) or _converted(results) for results in (base, new)]
    # It needs SciPy, which the Python that runs this has.
    return shlex.join([sys.executable, str(script), "benchmarks", *map(str, paths)])
