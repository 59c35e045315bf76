# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy, two files at a time, but on none that passed before with the same headers and settings.

    python tools/isolated.py checks.tidy <clang-tidy> <build folder> <folder of passed> <file>…

A file that passes leaves the empty file <folder of passed>/<digest of all that clang-tidy reads>. Exits 1 if one fails.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_by_compiler(build: Path) -> Iterator[list[Path]]:
    """For each object: the source, and the headers that the compiler opened."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    for block in listed.split("\n\n"):
        target, *paths = block.splitlines() or [""]
        if target.endswith("(VALID)"):
            yield [Path(os.path.normpath(build / path.strip())) for path in paths]


def digests(clang_tidy: str, build: Path) -> dict[Path, str]:
    version = subprocess.run([clang_tidy, "--version"], capture_output=True, text=True, check=True).stdout
    commands = {
        Path(entry["file"]): entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())
    }
    found = {}
    for source, *headers in read_by_compiler(build):
        if source in commands:
            read = [f"{path} {content(path)}" for path in (ROOT / ".clang-tidy", source, *headers)]
            # Clones in other folders share what passed.
            text = "\n".join([version, commands[source], *read]).replace(str(ROOT), "")
            found[source] = hashlib.sha256(text.encode()).hexdigest()
    return found


def main(clang_tidy: str, build: Path, passed: Path, *sources: str) -> int:
    passed.mkdir(parents=True, exist_ok=True)
    known = digests(clang_tidy, build)

    def passes(source: Path) -> bool:
        mark = passed / known[source] if source in known else None
        if mark is not None and mark.exists():
            return True
        command = [clang_tidy, "--quiet", "-p", str(build), str(source)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        lines = [
            line
            for line in done.stdout.splitlines()
            if not line.endswith(("warning generated.", "warnings generated."))
        ]
        print("\n".join(lines), end="\n" if lines else "", flush=True)
        if done.returncode == 0 and mark is not None:
            mark.touch()
        return done.returncode == 0

    with ThreadPoolExecutor(2) as two:
        return 0 if all(list(two.map(passes, map(Path, sources)))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:]))
