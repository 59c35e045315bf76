# SPDX-License-Identifier: Apache-2.0
"""Passes mutated and extreme results and journals to every verb, in one process.

A verb ends with 0, 1 or 2 (abba: 125), within seconds: no traceback, no text that acts on a terminal, a spreadsheet or
a browser, and with 2 a reason. ROOFBENCH_FUZZ_ROUNDS sets the number of mutated files. Each follows from its number
alone, which pytest --showlocals shows.
"""

from __future__ import annotations

import csv
import faulthandler
import io
import json
import math
import os
import random
import re
import shutil
import unicodedata
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import builders
import mutations
import pytest
from roofreport import units
from roofreport.cli import main

_ROUNDS = int(os.environ.get("ROOFBENCH_FUZZ_ROUNDS", "20"))
_NIGHTLY = 5000  # of which two fifths are journals and three fifths Google Benchmark's files
_ESCAPE = "\x1b]0;owned\x07"
_PATIENCE = 300.0  # seconds a verb; the slowest of whole files takes a hundredth of a second


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.acting: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[tag] += 1
        self.acting |= {name for name, _ in attrs if name.startswith("on") or name in ("href", "src")}


_TAGS = {
    *("html", "head", "meta", "title", "style", "script", "body", "main", "h1", "h2", "p", "div", "span", "button"),
    *("table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd"),
    *("svg", "g", "defs", "path", "use", "clippath", "rect", "text"),
    "wbr",
}


def _page(text: str) -> None:
    tags = _Tags()
    tags.feed(text)
    assert not set(tags.found) - _TAGS and not tags.acting
    assert (tags.found["meta"], tags.found["style"]) == (3, 1) and tags.found["script"] < 2


def _svg(text: str) -> None:
    elements = {one.tag.rpartition("}")[2] for one in ET.fromstring(text).iter()}
    assert elements <= {"svg", "style", "rect", "g", "text", "defs", "path", "use", "clipPath", "title"}


def _csv(text: str) -> None:
    for cell in (cell for row in csv.reader(io.StringIO(text)) for cell in row):
        is_formula = cell[:1] and cell[0] in "=+-@\t\r"
        assert not is_formula or re.fullmatch(r"[+-]?(\d[\d.]*(e[+-]?\d+)?|inf|nan)", cell)


def _latex(text: str) -> None:
    assert not re.search(r"\\\\\s*[\[*]", text), "LaTeX would take a name for an argument of the line's end"


def _terminal(text: str) -> None:
    acting = {unicodedata.category(character) for character in set(text) - set("\n\t\u200c\u200d")}
    assert not acting & {"Cc", "Cf", "Cs", "Zl", "Zp"}


# Arguments, where FILE is the mutant, GOOD a valid result and OUT a file to write; a check of the output; and for one
# file in how many it runs.
_COMMANDS: tuple[tuple[str, Callable[[str], None], int], ...] = (
    ("table FILE", _terminal, 1),
    ("table FILE --format=markdown", _terminal, 1),
    ("table FILE --format=latex --output=OUT", _latex, 1),
    ("table FILE --format=csv --output=OUT", _csv, 1),
    ("table FILE --format=gpt_fast", _csv, 1),
    ("table GOOD FILE", _terminal, 1),
    ("table FILE --training --format=latex", _latex, 1),
    ("summary FILE", _terminal, 1),
    ("summary GOOD FILE", _terminal, 1),
    ("compare GOOD FILE --cross-hardware", _terminal, 1),
    ("compare FILE GOOD --cross-hardware", _terminal, 1),
    ("compare FILE FILE --metric=roof", _terminal, 1),
    ("spread FILE FILE", _terminal, 1),
    ("scaling FILE --svg=OUT", _svg, 1),
    ("scaling FILE --axis=n", _terminal, 1),
    ("scaling FILE --points --format=csv", _csv, 1),
    ("params FILE --format=csv", _csv, 1),
    ("roofline FILE --html=OUT", _page, 1),
    ("machine FILE", _terminal, 1),
    ("machine FILE --html=OUT", _page, 5),
    ("machine FILE --svg=OUT --format=latex", _svg, 5),
    ("machine GOOD FILE --format=markdown", _terminal, 1),
    ("roofline FILE --svg=OUT", _svg, 1),
    ("spread --run=PROGRAM --processes=2 --keep=FOLDER/kept", _terminal, 20),
    ("abba PROGRAM PROGRAM --pairs=2 --max-time=0.01 --state=FOLDER/state", _terminal, 50),
)
# A program that "measures" the mutant.
_PROGRAM = """#!/bin/sh
for flag; do
  case $flag in
    --benchmark_out=*) exec cp "{file}" "${{flag#--benchmark_out=}}" ;;
    --benchmark_list_tests) exec echo '{cases}' ;;
    --describe=json) exit 2 ;;
  esac
done
"""

Verbs = Callable[..., Counter[int]]


@pytest.fixture
def every_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verbs:
    """Passes a document, or the bytes of one, to the verbs; returns how often each exit status occurred."""
    folder = tmp_path / f"a{_ESCAPE}\u202e"
    folder.mkdir()
    places = {name: folder / name.lower() for name in ("FILE", "GOOD", "OUT", "PROGRAM", "FOLDER")}
    builders.write_json(places["GOOD"], mutations.rows())
    cases = "\n".join(f"{name}/manual_time" for name in builders.TIMES)
    places["PROGRAM"].write_text(_PROGRAM.format(file=places["FILE"], cases=cases))
    places["PROGRAM"].chmod(0o755)
    known = re.compile("|".join(places))

    def run(document: dict[str, Any] | bytes, number: int = 1) -> Counter[int]:
        places["FILE"].write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
        statuses: Counter[int] = Counter()
        for command, check, every in _COMMANDS:
            if number % every:
                continue
            places["OUT"].unlink(missing_ok=True)
            shutil.rmtree(folder / "state", ignore_errors=True)
            faulthandler.dump_traceback_later(_PATIENCE, exit=True, file=2)
            status = main([known.sub(lambda match: str(places[match[0]]), part) for part in command.split()])
            faulthandler.cancel_dump_traceback_later()
            out, error = capsys.readouterr()
            statuses[status] += 1
            assert status in ((0, 1, 125) if command.startswith("abba") else (0, 1, 2)), (number, command)
            _terminal(out + error)
            is_refused = status == 2 or (status == 125 and not out)
            assert not is_refused or re.search("^(tools/report|roofreport): .", error.splitlines()[-1]), (
                number,
                command,
            )
            if status == 0:
                check(places["OUT"].read_text() if places["OUT"].exists() else out)
        assert not list(folder.glob("*.part"))
        return statuses

    return run


def test_a_whole_file_is_read_by_every_verb(every_verb: Verbs) -> None:
    assert set(every_verb(builders.document(mutations.rows()))) == {0, 1}, "1: compare finds a failed case"
    context = dict.fromkeys(("device_kind", "device", "reference", "threads"), _ESCAPE) | {"optimized": "false"}
    document = builders.document(mutations.rows(), **context)
    assert set(every_verb(document, 50)) == {0, 1, 2, 125}, "2: the machines differ; 125: abba has too few pairs"


@pytest.mark.parametrize(
    "rounds", [pytest.param(_ROUNDS, marks=pytest.mark.slow), pytest.param(_NIGHTLY, marks=pytest.mark.nightly)]
)
def test_no_verb_breaks_on_mutated_results(rounds: int, every_verb: Verbs) -> None:
    statuses: Counter[int] = Counter()
    for number in range(rounds):
        statuses += every_verb(mutations.mutant(random.Random(number)), number)
    assert statuses[0] and statuses[2], "some files are read, and some are refused"


_COUNTERS = (
    *("FLOP/s", "bytes/s", "roof", "stddev_ms", "mean_ms", "samples", "a100_flop_util", "a100_mem_util", "ttft_ms"),
    *("itl_ms", "tokens/s", "model_bytes", "parameters", "forward_mean_ms", "backward_mean_ms", "head_params"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "value"),
    [
        *((_COUNTERS, value) for value in (5e-324, -5e-324, 1e-200, 1e100, -1e100, 1e308, -1e308, -1.0, 0.0)),
        *((("real_time", "cpu_time"), value) for value in (5e-324, 1e-200, 1e-9, 1e15, 1e308, -1.0)),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else str(part),
)
def test_counters_and_times_at_the_ends_of_a_double(names: tuple[str, ...], value: float, every_verb: Verbs) -> None:
    """In the first of every two cases, so that they meet ordinary ones; then in all."""
    for step in (2, 1):
        document = builders.document(mutations.rows())
        for row in document["benchmarks"][::step]:
            row.update({name: value for name in names if name in row})
        every_verb(document)


def test_shares_and_rates_at_both_ends(every_verb: Verbs) -> None:
    """Their quotient is zero, or beyond all numbers."""
    document = builders.document(mutations.rows())
    for number, row in enumerate(row for row in document["benchmarks"] if "FLOP/s" in row):
        rate, share = (5e-324, 1e100) if number % 2 else (1e100, 5e-324)
        row.update(dict.fromkeys(("FLOP/s", "bytes/s"), rate))
        row.update(dict.fromkeys(("a100_flop_util", "a100_mem_util", "roof"), share))
    every_verb(document)


@pytest.mark.parametrize("value", ("5e-324", "1e308", "-1", "0", "1e100", "nan", "inf", "1e-300"))
def test_sizes_and_roofs(value: str, every_verb: Verbs) -> None:
    rows = [builders.row(f"matmul/dtype:fp32/n:{n}", 1.0) | {"FLOP/s": 1e9} for n in (value, "256", "512", "1e300")]
    every_verb(builders.document(rows, roof_read=value, roof_fp32=value, roof_copy="1e308", roof_bf16="5e-324"))


@pytest.mark.parametrize("exponent", (1e308, -1e308, 5e-324, 0.0, -3.0))
def test_expected_growth(exponent: float, every_verb: Verbs) -> None:
    contract = builders.contract(builders.family("matmul", builders.axis("n"), growth={"n": exponent}))
    rows = [builders.row(f"matmul/n:{n}", float(n)) for n in (1, 2, 4)]
    every_verb(builders.document(rows, contract=json.dumps(contract)))


@pytest.mark.parametrize("value", (math.nan, math.inf, -math.inf, 1e308, 5e-324, -1.0))
def test_units_of_anything(value: float) -> None:
    for text in (units.time(value), units.quantity(value, "B"), units.digits(value), units.percent(value)):
        assert text


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ["spread", "--run=true", f"--processes={value}"]
            for value in ("-1", "0", "1e308", "5e-324", "9" * 5000, "²")
        ),
        *(["abba", "true", "true", f"--pairs={value}"] for value in ("-1", "0", "1e308", "9" * 5000)),
        *(["abba", "true", "true", f"--max-time={value}"] for value in ("-1", "0", "nan", "inf", "1e308", "5e-324")),
        *(["abba", "true", "true", f"--budget={value}"] for value in ("-1", "0", "nan", "5e-324", "9" * 500)),
    ],
    ids=lambda arguments: arguments[-1][:30],
)
def test_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == (125 if arguments[0] == "abba" else 2)
    assert capsys.readouterr().err.splitlines()[-1].startswith("tools/report")
