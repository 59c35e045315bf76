# SPDX-License-Identifier: Apache-2.0
"""Reading results: both formats, and thirty ways not to be one."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import builders
import pytest
from reports import Report
from roofreport.errors import UnusableInputError
from roofreport.io.load import load, load_all, record_text, result_of
from roofreport.io.result import Case, State, merged


def test_json_and_journal_agree(tmp_path: Path) -> None:
    from_json = load(builders.write_json(tmp_path / "a.json"))
    journal = tmp_path / "a.jsonl"
    journal.write_text(builders.journal_text())
    from_journal = load(journal)
    assert list(from_json.by_name()) == list(from_journal.by_name()) == list(builders.TIMES)
    for a, b in zip(from_json.cases, from_journal.cases, strict=True):
        assert a.seconds == pytest.approx(b.seconds)
        assert a.flops == pytest.approx(b.flops)
        assert a.bytes == pytest.approx(b.bytes)
        assert a.counters == b.counters


def test_states_and_reasons(tmp_path: Path) -> None:
    rows = [
        builders.error_row("a/n:1", "skipped: out of memory: 5 GB"),
        builders.error_row("b/n:1", "failed: wrong result: off"),
        builders.error_row("c/n:1", "something of the library's own"),
    ]
    cases = load(builders.write_json(tmp_path / "a.json", rows)).cases
    assert [case.state for case in cases] == [State.SKIPPED, State.FAILED, State.FAILED]
    assert cases[0].out_of_memory
    assert cases[0].reason == "out of memory: 5 GB"
    assert cases[1].reason == "wrong result: off"


def test_aggregates_are_not_cases(tmp_path: Path) -> None:
    rows = [builders.row("a/n:1", time, repetition) for repetition, time in enumerate((1.0, 3.0, 2.0))]
    rows.append(builders.row("a/n:1", 2.0, run_type="aggregate", aggregate_name="median", aggregate_unit="time"))
    result = load(builders.write_json(tmp_path / "a.json", rows))
    assert len(result.cases) == 3
    assert merged(list(result.cases)).seconds == pytest.approx(2e-3)


def test_the_json_of_any_program_has_times_and_counters(tmp_path: Path) -> None:
    rows = [builders.row("BM_Sort/8", 2.0) | {"items_per_second": 5.0}, {**builders.row("BM_Sort_BigO", 1.0)}]
    rows[1] |= {"run_type": "aggregate", "aggregate_name": "BigO", "cpu_coefficient": 1.0, "big_o": "N"}
    for field in ("real_time", "cpu_time"):
        del rows[1][field]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"context": {"date": "2026-01-01", "num_cpus": 2}, "benchmarks": rows}))
    result = load(path)
    (case,) = result.cases
    assert (case.name, case.seconds, case.counters["items_per_second"]) == ("BM_Sort/8", 2e-3, 5.0)
    assert not result.notes, "of an older roofbench"


def test_json_and_journal_of_one_run_have_the_same_date(tmp_path: Path) -> None:
    started = "2026-01-02T03:04:05+00:00"
    from_json = load(builders.write_json(tmp_path / "a.json", started=started))
    journal = tmp_path / "a.jsonl"
    journal.write_text(builders.journal_text(builders.header(started=started, host_name="vm")))
    from_journal = load(journal)
    assert (from_json.date, from_json.host) == (from_journal.date, from_journal.host) == (started, "vm")
    assert (from_json.is_record, from_journal.is_record) == (False, True)


def test_json_becomes_a_record_with_exactly_its_numbers(tmp_path: Path) -> None:
    contract = json.dumps(builders.contract(builders.family("matmul", builders.axis("n"))))
    rows = [builders.row(builders.MATMUL, 10 / 3, n=1024), builders.error_row("b/n:1", "skipped: too large")]
    path = builders.write_json(tmp_path / "a.json", rows, contract=contract, date="2026-01-02 03:04:05")
    of_json = load(path)
    text = record_text(path, path.read_text())
    assert record_text(path, text) == text, "a record is one already"
    assert result_of(path, text) == of_json
    assert not of_json.is_record and of_json.contract.families.keys() == {"matmul"}
    assert (of_json.date, of_json.cases[0].seconds) == ("2026-01-02 03:04:05", 10 / 3 * 1e-3)


def test_only_what_became_a_record_may_lack_the_facts_of_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"context": {"date": "2026-01-01"}, "benchmarks": [builders.row("BM_Sort/8", 2.0)]}))
    text = record_text(path, path.read_text())
    assert result_of(path, text).cases[0].name == "BM_Sort/8"
    with pytest.raises(UnusableInputError, match="roofbench_version"):
        result_of(path, text.replace('"converted_from": "Google Benchmark", ', ""))


def test_merged_failure_wins() -> None:
    cases = [Case("a", 0, State.MEASURED, seconds=1), Case("a", 1, State.FAILED, "wrong")]
    assert merged(cases).state is State.FAILED


def test_cut_off_last_line_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    text = builders.journal_text()
    path.write_text(text[:-40])
    result = load(path)
    assert list(result.by_name()) == list(builders.TIMES)[:-1]
    assert "cut off" in result.notes[0]


def test_last_line_without_newline_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(builders.journal_text().rstrip("\n"))
    assert list(load(path).by_name()) == list(builders.TIMES)
    assert not load(path).notes


def test_several_machines_are_not_one_side(tmp_path: Path) -> None:
    builders.write_json(tmp_path / "a.json")
    builders.write_json(tmp_path / "b.json", host_name="elsewhere")
    with pytest.raises(UnusableInputError, match="different machines"):
        load_all([str(tmp_path / "*.json")])


def _changed(**changes: Any) -> str:
    return json.dumps(builders.document([builders.row("a/n:1", 1.0, **changes)]))


def _row_text(old: str, new: str) -> str:
    text = json.dumps(builders.document([builders.row("a/n:1", 1.5)]))
    assert old in text
    return text.replace(old, new)


def _line_text(old: str = "", new: str = "", **changes: Any) -> str:
    """A journal of one line."""
    text = builders.journal_text(builders.header(), builders.line("a", 1) | changes)
    assert old in text
    return text.replace(old, new)


def _lists(depth: int) -> str:
    return "[" * depth + "]" * depth


# Name, content, and a word of the refusal.
_TEXTS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "empty"),
    "blank": (" \n\n", "empty"),
    "prose": ("hello, world\n", "neither"),
    "binary": (b"\x7fELF\x02\x01\x01\0\0\0", "binary"),
    "latin1": (b'{"context": "\xe9"}', "UTF-8"),
    "array": ("[1, 2, 3]", "not a result"),
    "number": ("42", "not a result|neither"),
    "foreign_json": ('{"name": "x", "version": 1}', "no context and benchmarks"),
    "undated_benchmark": ('{"context": {"num_cpus": 2}, "benchmarks": []}', "date"),
    "truncated": (json.dumps(builders.document())[:-30], "cut off"),
    "truncated_in_name": (json.dumps(builders.document())[:700], "cut off"),
    "two_documents": (json.dumps(builders.document()) * 2, "damaged|line"),
    "trailing_comma": (json.dumps(builders.document())[:-2] + ",]}", "damaged"),
    "deep": (_lists(100_000), "neither|nested"),
    "deep_object": ('{"context":' * 5000 + "1" + "}" * 5000, "nested"),
    "deep_in_result": (_row_text('"load_avg": [', f'"load_avg": [{_lists(50)}, '), "nested"),
    "nan": (_row_text("1.5", "NaN"), "NaN"),
    "infinity": (_row_text("1.5", "-Infinity"), "Infinity"),
    "huge_float": (_row_text("1.5", "1e999"), "out of range"),
    "huge_integer": (_row_text("1.5", "1" * 5000), "out of range"),
    "negative_time": (_changed(real_time=-1.0), "real_time"),
    "zero_time": (_changed(real_time=0.0), "real_time"),
    "text_for_a_time": (_changed(real_time="fast"), "real_time"),
    "text_for_a_counter": (_changed(roof="high"), "roof"),
    "unknown_unit": (_changed(time_unit="fortnight"), "time_unit"),
    "row_among_many": (
        json.dumps(builders.document([builders.row(f"a/n:{n}", 1.0, real_time=n or "high") for n in range(4, -1, -1)])),
        "benchmarks[4].real_time must be number: 'high'",
    ),
    "too_many_counters": (_changed(**{f"k{i}": "text" for i in range(5000)}), "200 properties"),
    "control_character": (_changed(run_name="a\x1b[2J"), "run_name"),
    "reversed_text": (_changed(run_name="a\u202eb"), "run_name"),
    "surrogate": (_changed(run_name="a\ud800"), "run_name"),
    "long_name": (_changed(run_name="a" * 5000), "run_name"),
    "empty_name": (_changed(run_name=""), "run_name"),
    "key_twice": (_row_text('"time_unit": "ms"', '"time_unit": "ms", "time_unit": "s"'), "twice"),
    "case_twice": (json.dumps(builders.document([builders.row("a/n:1", 1.0)] * 2)), "twice"),
    "long_line": (b'{"context": "' + b"x" * (33 << 20) + b'"}', "line above"),
    "journal_of_the_future": ('{"schema": "roofbench-journal-9", "context": {}}\n', "roofbench-journal-9"),
    "journal_without_context": ('{"schema": "roofbench-journal-1"}\n', "line 1"),
    "journal_header_cut_off": (builders.journal_text()[:60], "neither|cut off"),
    "journal_damaged_inside": (builders.journal_text().replace('"verdict"', '"verd', 1), "line 2 is damaged"),
    "journal_damaged_at_its_end": (builders.journal_text()[:-20] + "\n", "damaged"),
    "journals_mixed": (builders.journal_text() * 2, "several journals"),
    "journal_and_json": (builders.journal_text() + json.dumps(builders.document()) + "\n", "schema"),
    "journal_case_twice": (builders.journal_text(builders.header(), *[builders.line("a", 1)] * 2), "twice"),
    "journal_nan_sample": (builders.journal_text().replace("[0.01,", "[NaN,"), "NaN"),
    "journal_text_sample": (_line_text(samples_s=[1.0, "x"]), "samples_s"),
    "journal_negative_sample": (_line_text(samples_s=[1.0, -1.0]), "samples_s"),
    "journal_without_times": (
        builders.journal_text(builders.header(), {"name": "a", "repetition": 0, "verdict": "measured"}),
        "median_s",
    ),
    "journal_deep_field": (_line_text('"DEEP"', _lists(300_000), extra="DEEP"), "nested"),
    "journal_deep_object": (_line_text('"DEEP"', '{"name":' * 300_000 + "1" + "}" * 300_000, roof="DEEP"), "nested"),
    "journal_deep_header": (
        builders.journal_text(builders.header() | {"run": "DEEP"}).replace('"DEEP"', _lists(300_000)),
        "nested",
    ),
    "journal_deep_and_cut": (_line_text() + '{"name": ' + "[" * 300_000, "nested"),
    **{
        f"journal_{field}_{kind}": (_line_text("", "", **{field: value}), field)
        for kind, samples in (("empty", []), ("negative", [1.0, -1e-9]), ("below_zero", [-5e-324]))
        for field, value in (("samples_s", samples), ("phase_samples_s", {"forward": [1.0], "backward": samples}))
    },
    "journal_negative_ratio": (_line_text(roof={"name": "m", "ratios": [-0.5]}), "ratios"),
    "journal_no_time": (_line_text(median_s=5e-324), "median_s"),
    "journal_longest_time": (_line_text(median_s=1.07e6), "median_s"),
    "journal_longest_sample": (_line_text(samples_s=[1.07e6]), "samples_s"),
    "journal_huge_counter": (_line_text(counters={"roof": 1e308}), "counters.roof"),
    "least_time": (_changed(real_time=5e-324), "real_time"),
    "most_time": (_changed(real_time=1e308), "real_time"),
    "most_counter": (_changed(roof=1e308), "roof"),
    "least_counter": (_changed(roof=-1e308), "roof"),
    "raw_control_character": (_row_text("a/n:1", "a\x1b[2J/n:1"), "control character \\u001b|line 1"),
    "raw_control_character_in_context": (_row_text('"Test CPU"', '"Test\nCPU"'), "control character \\u000a"),
    "context_given_twice": (_row_text('"seed": "0"', '"seed": "0", "seed": "1"'), "the key 'seed' is given twice"),
    "journal_raw_control_character": (_line_text("Test CPU", "Test\x07CPU"), "control character|neither"),
    "journal_key_twice": (
        _line_text('"repetition"', '"verdict": "failed", "repetition"'),
        "line 2 is damaged: the key 'verdict' is given twice",
    ),
    "journal_odd_verdict": (_line_text(verdict="ok"), "verdict"),
}


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        cwd = Path.cwd()
        os.chdir(path.parent)  # the name of a socket has to be short
        try:
            one.bind(path.name)
        finally:
            os.chdir(cwd)


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


# Name, what makes it, and a word of the refusal.
_THINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "folder": (Path.mkdir, "directory"),
    "loop": (lambda path: path.symlink_to(path), "cannot be read"),
    "dangling": (lambda path: path.symlink_to(path.with_name("nowhere")), "cannot be read"),
    "pipe": (os.mkfifo, "is a pipe"),
    "socket": (_socket, "cannot be read|socket"),
    "sparse": (_sparse, "MiB"),
    "absent": (lambda path: None, "cannot be read"),
}


def _make(path: Path, name: str) -> str:
    if name in _THINGS:
        make, word = _THINGS[name]
        make(path)
        return word
    content, word = _TEXTS[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return word


@pytest.mark.parametrize("name", [*_TEXTS, *_THINGS])
def test_hostile_input_is_refused_by_name(name: str, tmp_path: Path, report: Report) -> None:
    path = tmp_path / f"{name}.json"
    word = _make(path, name)
    good = builders.write_json(tmp_path / "good.json")
    for arguments in (
        ["table", str(path)],
        ["compare", str(good), str(path)],
        ["compare", str(path), str(good)],
        ["roofline", str(path), f"--html={tmp_path / 'page.html'}"],
        ["scaling", str(path)],
    ):
        error = report.refused(*arguments)
        assert f"{name}.json" in error
        assert any(part in error for part in word.split("|")), error
        assert error.count("\n") == 1
        assert all(character == "\n" or character.isprintable() for character in error)
    assert not (tmp_path / "page.html").exists()


def test_unreadable_file(tmp_path: Path) -> None:
    path = builders.write_json(tmp_path / "a.json")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root reads everything")
    with pytest.raises(UnusableInputError, match="cannot be read"):
        load(path)


def test_axes_are_not_counters(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"impl": "eager", "dtype": "fp32", "n": 1024, "cache": "cold"}
    path = builders.write_json(tmp_path / "a.json", [builders.row(builders.MATMUL, 10.0, **fields)])
    (case,) = load(path).cases
    assert not fields.keys() & case.counters.keys()
    assert case.counters["roof"] == 0.5
    foreign = builders.write_json(tmp_path / "b.json", [builders.row("unheard/of:1", 10.0, of="it", frobs=3)])
    (case,) = load(foreign).cases
    assert case.counters["frobs"] == 3, "in an unknown family, a number is a counter"
    assert "of" not in case.counters


def test_names_with_and_without_manual_time_are_the_same(tmp_path: Path) -> None:
    rows = [builders.row(builders.GEMV, 1.0) | {"name": name, "run_name": name} for name in (builders.GEMV,)]
    (case,) = load(builders.write_json(tmp_path / "a.json", rows)).cases
    (before,) = load(builders.write_json(tmp_path / "b.json", [builders.row(builders.GEMV, 1.0)])).cases
    assert case.name == before.name == builders.GEMV


def test_unknown_families_are_of_an_older_program_or_of_another(tmp_path: Path) -> None:
    rows = [builders.row("scale_add/impl:ours/n:1", 1.0)]
    (older,) = load(builders.write_json(tmp_path / "a.json", rows)).notes
    assert "(scale_add): an older roofbench" in older
    (another,) = load(builders.write_json(tmp_path / "b.json", rows, program="own_kernel")).notes
    assert "another program (scale_add): a run with --journal=FILE keeps" in another
