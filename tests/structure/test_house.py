# SPDX-License-Identifier: Apache-2.0
"""Small files, small folders, no word of a family in lib/; and the rules notice when it is otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from house_rules import (
    MEANT_OTHERWISE,
    MOST_LINES,
    MOST_SOURCES,
    SHARED_AXES,
    crowded_folders,
    families_in_lib,
    literals,
    long_files,
    spoken_words,
)

ROOT = Path(__file__).resolve().parents[2]


def test_no_folder_is_crowded() -> None:
    assert list(crowded_folders(ROOT)) == []


def test_no_file_is_long() -> None:
    assert list(long_files(ROOT)) == []


def test_no_family_is_known_in_lib() -> None:
    assert list(families_in_lib(ROOT)) == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    contract = {
        "families": [{"name": "gemv", "axes": [{"name": "impl"}, {"name": "n"}]}],
        "renames": [{"family": "self"}],
    }
    place = tmp_path / "tools/roofreport/contract.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(contract))
    return tmp_path


def _written(tree: Path, path: str, text: str = "") -> Path:
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text)
    return tree


def test_a_source_and_its_header_are_one(tree: Path) -> None:
    for i in range(MOST_SOURCES):
        _written(tree, f"lib/suite/part{i}.cc")
        _written(tree, f"lib/suite/part{i}.h")
    assert list(crowded_folders(tree)) == []
    (found,) = crowded_folders(_written(tree, "lib/suite/one_more.h"))
    assert found.startswith("lib/suite: 16 sources")


@pytest.mark.parametrize(
    ("path", "most"), [("lib/run/a.cc", 250), ("tools/a.py", MOST_LINES), ("lib/base/a.h", MOST_LINES)]
)
def test_a_long_file_is_found(tree: Path, path: str, most: int) -> None:
    assert list(long_files(_written(tree, path, "\n" * most))) == []
    (found,) = long_files(_written(tree, path, "\n" * (most + 1)))
    assert found == f"{path}: {most + 1} lines; {most} are the most"


@pytest.mark.parametrize("path", ["tests/a.cc", "tools/roofreport/contract.json", "README.md"])
def test_tests_and_what_is_generated_may_be_long(tree: Path, path: str) -> None:
    long = "\n" * 1000 if path.endswith((".cc", ".md")) else (tree / path).read_text() + "\n" * 1000
    assert list(long_files(_written(tree, path, long))) == []


def _lines(rule: Callable[[Path], Iterator[str]], tree: Path) -> list[int]:
    return [int(line.split(":")[1]) for line in rule(tree)]


def test_words_of_families_are_found_in_strings_alone(tree: Path) -> None:
    source = """#include "lib/kernels/gemv.h"
// "gemv" in a comment
auto a = "gemv";  // an "n" in a comment
auto b = Error("impl:native is for processors");
auto c = "self";
auto gemv = "https://gemv.example/a//b";
auto d = "a reason, with \\"quotes\\"";
auto e = "n";
"""
    assert _lines(families_in_lib, _written(tree, "lib/suite/planted.cc", source)) == [3, 4, 5, 8]
    assert _lines(families_in_lib, _written(tree, "lib/base/planted.cc", 'auto e = "n";')) == [3, 4, 5, 8], "a unit"


def test_shared_axes_are_spelt_in_one_place(tree: Path) -> None:
    assert list(families_in_lib(_written(tree, "lib/suite/shared_axes.h", 'auto a = "impl";'))) == []
    assert SHARED_AXES.fullmatch("lib/suite/shared_axes.cc")


_SPOKEN = ["impl", "x; impl:eager", "gemv/impl:eager", "--axis=gemv.n=3", "--axis=n=3", "_filter='^gemv/", "gemv/.*"]


@pytest.mark.parametrize("text", _SPOKEN)
def test_words_that_are_spoken(text: str) -> None:
    assert spoken_words(text, {"impl", "gemv", "n"})


@pytest.mark.parametrize(
    "text", ["implementation", "n of them", "a gemv", "bytes/s", "tokens/s", "gemv_rows", "std::n"]
)
def test_words_that_are_not(text: str) -> None:
    assert not spoken_words(text, {"impl", "gemv", "n", "bytes", "tokens"})


def test_strings_of_a_line() -> None:
    assert list(literals('a("x", "y // z"); // "w"\n#include "v"\nb("u");')) == [(1, "x"), (1, "y // z"), (3, "u")]


def test_other_meanings_have_their_folder() -> None:
    for folder in MEANT_OTHERWISE:
        parent = Path(folder).parent if not folder.endswith("/") else Path(folder)
        assert (ROOT / parent).is_dir(), folder
