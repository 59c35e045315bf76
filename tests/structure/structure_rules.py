# SPDX-License-Identifier: Apache-2.0
"""The rules of the source tree: includes between folders, and properties of files.

    python tests/structure/structure_rules.py [root]

Each rule is a row of a table below; violations(root) returns one line for each file that breaks one.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

# The arrows between the folders of lib/, benchmarks/ and python/. A folder sees itself and the folders that it reaches
# along arrows.
ARROWS: dict[str, set[str]] = {
    "base": set(),
    "workload": set(),
    "cases": {"base", "workload"},
    "kernels": set(),
    "timing": {"workload"},
    "hardware": {"kernels", "timing"},
    "results": {"base", "hardware"},
    "observe": {"base", "workload"},
    "aten": {"kernels", "workload"},
    "models": {"aten", "base", "observe", "ranks"},
    "device": {"aten", "base", "hardware", "observe"},
    "ranks": {"base", "timing"},
    "suite": {"cases", "device", "ranks"},
    "run": {"observe", "results", "suite"},
    "gbench": {"run"},
    "cli": {"gbench"},
    "benchmarks": {"cli", "models"},
    "python": {"cases", "results"},
}


# Folders within a layer that never see each other: decoding and training share what both need, in block.
STRANGERS: dict[str, set[str]] = {
    "lib/models/block/": {"lib/models/checkpoint/", "lib/models/decoding/", "lib/models/training/"},
    "lib/models/decoding/": {"lib/models/native/", "lib/models/training/"},
    "lib/models/generation/": {"lib/models/native/", "lib/models/training/"},
    "lib/models/native/": {"lib/models/training/"},
    "lib/models/training/": {"lib/models/checkpoint/", "lib/models/decoding/", "lib/models/native/"},
}

ABOVE_ATEN = {"aten", "observe", "models", "device", "ranks", "suite", "run", "gbench", "cli", "benchmarks"}


class Package(NamedTuple):
    """A package, its header pattern, and the folders that see it."""

    name: str
    headers: re.Pattern[str]
    seen_by: set[str]


PACKAGES = [
    Package("Google Benchmark", re.compile(r"benchmark/"), {"gbench"}),
    Package("c10d", re.compile(r"torch/csrc/distributed/"), {"ranks"}),
    Package("Gloo", re.compile(r"gloo/"), {"ranks"}),
    Package("LibTorch", re.compile(r"(ATen|c10|torch|caffe2)/"), ABOVE_ATEN),
    Package("Abseil", re.compile(r"absl/"), ABOVE_ATEN | {"base", "cases", "results"}),
    Package("nlohmann/json", re.compile(r"nlohmann/"), ABOVE_ATEN | {"base", "cases", "python", "results"}),
    Package("nanobind", re.compile(r"nanobind/"), {"python"}),
    Package("Highway", re.compile(r"hwy/"), {"kernels"}),
    Package("NVTX", re.compile(r"nvtx3/"), {"observe"}),
    Package("GoogleTest", re.compile(r"(gtest|gmock)/"), set()),
]

STANDARD_HEADER = re.compile(r"[a-z_0-9]+")
CUDA_HEADER = re.compile(r"cuda|cu(blas|dnn|rand|fft|sparse|solver|pti)|nccl|cub/|thrust/|(ATen|c10|torch)/.*cuda")
CUDA_FILE = re.compile(r".*(\.cuh?|_cuda\.[^/]*|_cuda_test\.cc)")

SOURCE_SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
GENERATED_HEADERS = {"roofbench_version.h", "compile_package.h", "test_paths.h"}

# A path in a comment or a text of documentation: from the root of the repository, perhaps a pattern. One with <…> is
# made up.
NAMED_PATH = re.compile(r"(?<![\w/.~<>$}*-])(?:benchmarks|docs|lib|python|tests|tools)/[\w./*<>-]+")
CPP_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
SHELL_COMMENT = re.compile(r"(?:^|\s)#[^\n]*")

# Programs that check the product from outside and share no code with it.
STAND_ALONE = {"tests/oracles/roof_loops.cc"}

# Layers that serve every family and name none, and words that mean something else there: roofs of memory, titles.
NAMELESS = ("cases", "suite", "results", "run", "gbench", "cli", "device")
MEANT_OTHERWISE = {"arithmetic", "copy", "read", "write"}
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
CASE_NAME = re.compile(r"(?:^|[\s'(^])(\w+)(?:/\w+:|/\.\*|$)|--axis=(\w+)\.")

SPDX = "SPDX-License-Identifier: Apache-2.0"

LARGEST_FILE_BYTES = 2 * 1024 * 1024
NOT_SOURCES = {".git", ".venv", ".ccache", "build", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


def reachable(folder: str) -> set[str]:
    seen = {folder}
    for target in ARROWS[folder]:
        seen |= reachable(target)
    return seen


def folder_of(path: str) -> str | None:
    """The folder whose rules a source file keeps: a test keeps those of the tested folder."""
    parts = path.split("/")
    if parts[0] in {"benchmarks", "python"}:
        return parts[0]
    if parts[0] in {"lib", "tests"} and len(parts) > 2 and parts[1] in ARROWS:
        return parts[1]
    return None


def project_files(root: Path) -> list[str]:
    """Files that git tracks or would track; without git, every file outside build folders and caches."""
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
        return sorted(path for path in set(listed) if path and (root / path).is_file())
    files = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in NOT_SOURCES]
        files += [(Path(folder) / name).relative_to(root).as_posix() for name in names]
    return sorted(path for path in files if not path.startswith("results/local/"))


def include_violations(root: Path, path: str) -> Iterator[str]:
    is_test = path.startswith("tests/")
    folder = folder_of(path)
    strangers = tuple(other for own, others in STRANGERS.items() if path.startswith(own) for other in others)
    for quoted, angled in INCLUDE.findall((root / path).read_text(encoding="utf-8")):
        header = quoted or angled
        if CUDA_HEADER.match(header) and not CUDA_FILE.fullmatch(path):
            yield f"{path}: only *.cu and *_cuda.* files see the CUDA runtime: {header}"
        package = next((package for package in PACKAGES if package.headers.match(header)), None)
        if quoted and not package and quoted not in GENERATED_HEADERS and not (root / quoted).is_file():
            yield f"{path}: includes are relative to the repository root: {quoted}"
        if quoted and path in STAND_ALONE:
            yield f"{path}: it shares no code with the product: {quoted}"
        if strangers and quoted.startswith(strangers):
            yield f"{path}: {Path(path).parent} never sees {Path(quoted).parent}: {header}"
        if folder is None:
            continue
        target = folder_of(header) if quoted else None
        if target is not None and target not in reachable(folder):
            yield f"{path}: {folder} never sees {target}: {header}"
        if quoted.startswith("tests/") and not is_test:
            yield f"{path}: the product never sees its tests: {header}"
        if folder == "workload" and not is_test and angled and not STANDARD_HEADER.fullmatch(angled):
            yield f"{path}: workload includes the standard library alone: {header}"
        if package and folder not in package.seen_by and not (is_test and package.name == "GoogleTest"):
            yield f"{path}: {folder} never sees {package.name}: {header}"


def families(root: Path) -> set[str]:
    contract = json.loads((root / "tools/roofreport/contract.json").read_text(encoding="utf-8"))
    return {family["name"] for family in contract["families"]} - MEANT_OTHERWISE


def family_violations(root: Path, path: str, names: set[str]) -> Iterator[str]:
    """Strings of lib/ that are a family's name or the beginning of a case's."""
    if not path.startswith(tuple(f"lib/{layer}/" for layer in NAMELESS)):
        return
    for line in (root / path).read_text(encoding="utf-8").splitlines():
        if not line.lstrip().startswith(("#", "//")):
            spoken = {name for text in STRING.findall(line) for found in CASE_NAME.findall(text) for name in found}
            yield from (f"{path}: lib/ knows no family, and {name!r} is one: {line.strip()}" for name in spoken & names)


def is_script(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(2) == b"#!"


def is_ours(path: str, runs: bool) -> bool:
    """Whether a file is a source that has to name our license. Templates for users do not: tests/consumer, examples."""
    rooms = ("lib/", "benchmarks/", "python/bindings/", "python/src/", "tests/", "tools/")
    is_source = runs or Path(path).suffix in SOURCE_SUFFIXES | {".py"}
    return is_source and path.startswith(rooms) and not path.startswith("tests/consumer/")


def file_violations(root: Path, path: str) -> Iterator[str]:
    file = root / path
    size = file.stat().st_size
    if size > LARGEST_FILE_BYTES:
        yield f"{path}: {size} bytes; the largest file may have {LARGEST_FILE_BYTES}"
    if is_script(file) and not os.access(file, os.X_OK):
        yield f"{path}: a script has to be executable"
    if is_ours(path, is_script(file)) and SPDX not in "".join(file.read_text(encoding="utf-8").splitlines()[:2]):
        yield f"{path}: its first line names the license: {SPDX}"
    if file.suffix in {".h", ".cuh"} and "#pragma once" not in file.read_text(encoding="utf-8"):
        yield f"{path}: a header starts with #pragma once"


def comments(path: str, text: str) -> Iterator[str]:
    """Those of a C++ file, a Python file (with the texts of documentation) or a script."""
    suffix = Path(path).suffix
    if suffix in SOURCE_SUFFIXES:
        yield from CPP_COMMENT.findall(text)
    elif suffix == ".py" or "python" in text.partition("\n")[0]:
        begins = True  # a statement, which is documentation if it is a text
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or (begins and token.type == tokenize.STRING):
                yield token.string
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    elif text.startswith("#!"):
        yield from SHELL_COMMENT.findall(text)


def path_violations(root: Path, path: str) -> Iterator[str]:
    for comment in comments(path, (root / path).read_text(encoding="utf-8")):
        for named in NAMED_PATH.findall(comment):
            file = named.rstrip(".")
            if "<" not in file and not any(root.glob(file)):
                yield f"{path}: a comment names {file}, which does not exist"


def violations(root: Path, paths: Iterable[str] | None = None) -> list[str]:
    """Violations in these files, or in all."""
    found: list[str] = []
    names = families(root)
    for path in project_files(root) if paths is None else paths:
        found += file_violations(root, path)
        if Path(path).suffix in SOURCE_SUFFIXES:
            found += include_violations(root, path)
            found += family_violations(root, path, names)
        if is_ours(path, is_script(root / path)):
            found += path_violations(root, path)
    return found


if __name__ == "__main__":
    lines = violations(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(lines))
    sys.exit(bool(lines))
