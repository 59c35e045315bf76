# SPDX-License-Identifier: Apache-2.0
"""The fast way to see that a value fits a schema accepts nothing that jsonschema refuses, and spares its work."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import builders
import mutations
import pytest
from jsonschema import Draft202012Validator
from roofreport.errors import UnusableInputError
from roofreport.io import schemas
from roofreport.io.fast_schema import Compiler
from roofreport.io.load import load


def _schema(name: str, definition: str) -> Any:
    schema = schemas.load_schema(name)
    return {"$ref": f"#/$defs/{definition}", "$defs": schema["$defs"]} if definition else schema


def _values(name: str, definition: str, generator: random.Random) -> Any:
    if name == "google_benchmark":
        value: Any = mutations.document(generator)
        value["benchmarks"] = value["benchmarks"][:3]
    elif name == "contract":
        value = builders.contract(builders.family("a", builders.axis("n"), growth={"n": 1.0}))
        value["counters"] = value["counters"][:5]
    else:
        lines = mutations.journal(generator)
        value = lines[0] if definition == "header" else generator.choice(lines[1:])
    for _ in range(generator.choice((0, 1, 1, 2, 8))):
        mutations.mutate(value, generator)
    return value


@pytest.mark.parametrize(
    ("name", "definition"), [("google_benchmark", ""), ("contract", ""), ("journal", "header"), ("journal", "case")]
)
def test_both_ways_agree(name: str, definition: str) -> None:
    schema = _schema(name, definition)
    fits, slow = Compiler(schema).check(schema), Draft202012Validator(schema)
    generator = random.Random(1)
    found = set()
    for _ in range(150):
        value = _values(name, definition, generator)
        fast = fits(value)
        found.add(fast)
        assert fast == slow.is_valid(value), json.dumps(value)
        assert (schemas.violation(value, name, definition) is None) == fast
    assert found == {True, False}


def test_an_unknown_keyword_is_told() -> None:
    with pytest.raises(KeyError, match="multipleOf"):
        Compiler({}).check({"multipleOf": 2})


def _forbid(*arguments: object) -> None:
    raise AssertionError("jsonschema was asked")


def test_what_fits_costs_jsonschema_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "best_match", _forbid)
    journal = tmp_path / "a.jsonl"
    journal.write_text(builders.journal_text())
    assert load(builders.write_json(tmp_path / "a.json")).cases
    assert load(journal).cases


def test_of_many_rows_the_wrong_ones_are_explained_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explained: list[object] = []
    kind: Any = type(schemas._judges("google_benchmark", "")[1])
    descend = kind.descend

    def counted(self: Any, instance: Any, schema: Any, **more: Any) -> Any:
        explained.append(more.get("path"))
        return descend(self, instance, schema, **more)

    monkeypatch.setattr(kind, "descend", counted)
    rows = [builders.row(f"a/n:{n}", 1.0) for n in range(300)]
    rows[200]["real_time"] = "high"
    with pytest.raises(UnusableInputError, match=r"benchmarks\[200\]\.real_time"):
        load(builders.write_json(tmp_path / "a.json", rows))
    assert 200 in explained
    assert len(explained) < 200


def test_too_many_properties_are_not_looked_at(tmp_path: Path) -> None:
    rows = [builders.row("a/n:1", 1.0) | {f"k{i}": "text" for i in range(5000)}]
    with pytest.raises(UnusableInputError, match="too many properties"):
        load(builders.write_json(tmp_path / "a.json", rows))
