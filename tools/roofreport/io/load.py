# SPDX-License-Identifier: Apache-2.0
"""Results: the record of a run, which is its journal (a header, and then one JSON line for each finished case), and
Google Benchmark's JSON of any program, which is turned into a record of what it has and then read as one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roofreport.errors import UnusableInputError
from roofreport.io import case_name, source
from roofreport.io.contract import CONTRACT_KEY, Contract, Family, packaged, read_contract, unpacked_contract
from roofreport.io.result import Case, Result, State, differences, inert_result
from roofreport.io.schemas import load_schema, violation
from roofreport.io.source import read_text, refuse
from roofreport.text import shortened

_MOST_LISTED = 6
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
# Fields of a row that Google Benchmark owns: every other one is a counter.
LIBRARY_FIELDS = frozenset(load_schema("google_benchmark")["$defs"]["row"]["properties"])


def _state(row: dict[str, Any]) -> tuple[State, str]:
    if not row.get("error_occurred") and not row.get("skipped"):
        return State.MEASURED, ""
    message = str(row.get("error_message") or row.get("skip_message") or "")
    verdict, colon, reason = message.partition(": ")
    if colon and verdict in {state.value for state in State}:
        return State(verdict), reason
    return (State.SKIPPED if row.get("skipped") else State.FAILED), message


def _is_axis(name: str, value: Any, family: Family | None, contract: Contract) -> bool:
    """Whether a field that is not the library's is an axis of the row's case, as before version 0.2. One that is called
    like a counter is a counter; in a family that the contract does not know, text is an axis.
    """
    if contract.metric(name) is not None:
        return False
    return isinstance(value, str) if family is None else family.axis(name) is not None


def _axes(row: dict[str, Any], contract: Contract) -> dict[str, str]:
    """Those that the row's family has, also where the name omits them."""
    family = contract.families.get(case_name.family(row["run_name"]))
    names = [axis.name for axis in family.axes if axis.name not in LIBRARY_FIELDS] if family else []
    return {name: str(row[name]) for name in names if name in row and contract.metric(name) is None}


def _counters(path: Path, row: dict[str, Any], contract: Contract) -> dict[str, float]:
    family = contract.families.get(case_name.family(row["run_name"]))
    counters = {}
    for name, value in row.items():
        if name in LIBRARY_FIELDS or _is_axis(name, value, family, contract):
            continue
        if isinstance(value, str):
            raise refuse(path, f"the counter {name} of {row['run_name']} is not a number")
        counters[name] = float(value)
    return counters


def _line_of_row(path: Path, row: dict[str, Any], contract: Contract) -> dict[str, Any]:
    state, reason = _state(row)
    counters = _counters(path, row, contract)
    line: dict[str, Any] = {
        "name": case_name.plain(row["run_name"]),
        "axes": _axes(row, contract),
        "repetition": row.get("repetition_index", 0),
        "verdict": state.value,
        "reason": reason,
        "stop": row.get("label", ""),
    }
    if state is not State.MEASURED:
        return line
    unit = SECONDS[row["time_unit"]]
    seconds = row["real_time"] * unit
    return line | {
        "median_s": seconds,
        "cpu_s": row["cpu_time"] * unit,
        "flops": counters.get("FLOP/s", 0.0) * seconds,
        "bytes": counters.get("bytes/s", 0.0) * seconds,
        "counters": counters,
    }


def _distinct(path: Path, cases: Iterable[Case]) -> tuple[Case, ...]:
    """All of them. Raises UnusableInputError if a repetition of a case occurs twice."""
    found: dict[tuple[str, int], Case] = {}
    for case in cases:
        if found.setdefault((case.name, case.repetition), case) is not case:
            raise refuse(path, f"has the case {case.name} (repetition {case.repetition}) twice")
    return tuple(found.values())


JOURNAL_SCHEMA = "roofbench-journal-1"
STARTED = "started"  # the fact of a context that says when the run began
_BEGINNING = (STARTED, "host_name", "roofbench_revision", "program", "program_revision", "command_line")
_ROUNDED = 1e-6  # of a time in another unit
_CONVERTED = "converted_from"  # the entry of a header whose record was not the program's own
CUT_OFF = "the last line is cut off: its case is left out"


def _hardware(context: dict[str, Any]) -> dict[str, str]:
    """What Google Benchmark says of the machine, in our program's words; not its frequency, that of a moment."""
    if "device" in context:
        return {}
    found = {"cpu_count": str(context["num_cpus"])} if context.get("num_cpus") else {}
    caches = [
        f"L{cache['level']} {cache['size'] // 1024} KiB per {cache['num_sharing']}"
        for cache in context.get("caches", [])
        if cache.get("type") != "Instruction"
        and all(isinstance(cache.get(key), int) for key in ("level", "size", "num_sharing"))
    ]
    return found | ({"cpu_caches": ", ".join(caches)[:4096]} if caches else {})


def _converted(path: Path, document: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The header and the lines of the record that Google Benchmark's JSON becomes."""
    context = document.get("context")
    if not isinstance(context, dict) or "benchmarks" not in document:
        raise refuse(path, "is JSON, but not a result (it has no context and benchmarks)")
    wrong = violation(document, "google_benchmark")
    if wrong:
        raise refuse(path, f"does not fit the schema of results: {wrong}")
    facts = _hardware(context) | {key: value for key, value in context.items() if isinstance(value, str)}
    date = facts.pop("date")
    facts[STARTED] = facts.get(STARTED) or date
    header = {"schema": JOURNAL_SCHEMA, _CONVERTED: "Google Benchmark", "context": facts}
    contract = unpacked_contract(path, facts.pop(CONTRACT_KEY, None))  # before version 0.2
    if contract is not None:
        header[CONTRACT_KEY] = contract
    rows = [row for row in document["benchmarks"] if row["run_type"] == "iteration"]
    if document["benchmarks"] and not rows:
        raise refuse(path, "has aggregates only; write it without --benchmark_report_aggregates_only")
    known = read_contract(path, contract)
    return header, (_line_of_row(path, row, known) for row in rows)


def _case_of_line(line: dict[str, Any]) -> Case:
    return Case(
        name=line["name"],
        repetition=line["repetition"],
        state=State(line["verdict"]),
        reason=line.get("reason", ""),
        seconds=line.get("median_s", 0.0),
        cpu_seconds=line.get("cpu_s", 0.0),
        flops=line.get("flops", 0.0),
        bytes=line.get("bytes", 0.0),
        precisions=tuple(name for name, flops in line.get("flops_by_precision", {}).items() if flops > 0),
        stop=line.get("stop", ""),
        counters={key: float(value) for key, value in line.get("counters", {}).items()},
        axes={axis: str(value) for axis, value in line.get("axes", {}).items()},
        samples=line.get("samples_s", ()),
    )


def _after_the_first(text: str) -> Iterator[tuple[str, bool]]:
    """Line by line, and whether each has its end: a list of all lines would take many times the file's size."""
    start = text.find("\n") + 1
    while 0 < start < len(text):
        end = text.find("\n", start)
        yield text[start : end if end >= 0 else None], end >= 0
        start = end + 1


def _lines(path: Path, text: str, notes: list[str]) -> Iterator[dict[str, Any]]:
    for number, (raw, ended) in enumerate(_after_the_first(text), 2):
        try:
            line = source.parse_json(raw)
        except source.StrictJsonError as error:
            if not ended and error.at_end:
                notes.append(CUT_OFF)
                return
            raise refuse(path, f"line {number} is damaged: {error}") from error
        if isinstance(line, dict) and "schema" in line:
            raise refuse(path, f"holds several journals mixed together (line {number} is a header)")
        wrong = violation(line, "journal", "case")
        if wrong:
            raise refuse(path, f"line {number} does not fit the schema of journals: {wrong}")
        yield line


def _checked(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    if header["schema"] != JOURNAL_SCHEMA:
        raise refuse(path, f"has the schema {str(header['schema'])[:60]!r}; this program reads {JOURNAL_SCHEMA!r}")
    wrong = violation(header, "journal", "header")
    if wrong:
        raise refuse(path, f"line 1 does not fit the schema of journals: {wrong}")
    return header


def is_complete(journal: Path) -> bool:
    """Whether it has as many finished cases as its header says. One that does not say counts as complete, and a damaged
    one, too, which no run can continue. Raises OSError."""
    with journal.open(encoding="utf-8", errors="replace") as lines:
        try:
            cases = json.loads(next(lines, "")).get("cases", 0)
            found = (json.loads(line) for line in lines if line.endswith("\n"))
            finished = sum(State.INTERRUPTED.value not in (line["verdict"], line.get("stop")) for line in found)
            return finished >= int(cases)
        except (ValueError, KeyError, TypeError, AttributeError):
            return True


def load(path: Path) -> Result:
    """Raises UnusableInputError, whose text names the file."""
    return result_of(path, read_text(path))


def _with_note(result: Result) -> Result:
    """JSON has no contract: families that the packaged one lacks are another program's, or an older one's."""
    result = inert_result(result)
    if result.contract is not packaged() or "roofbench_version" not in result.context:
        return result
    unknown = dict.fromkeys(case_name.family(case.name) for case in result.cases)
    listed = [name for name in unknown if name not in result.contract.families]
    if not listed:
        return result
    names = ", ".join(shortened(name, 60) for name in listed[:_MOST_LISTED])
    if "program" not in result.context:
        note = f"unknown families ({names}): an older roofbench wrote this file; run the cases again to compare them"
    else:
        note = f"the families of another program ({names}): a run with --journal=FILE keeps what it says of them"
    return replace(result, notes=(*result.notes, note))


def _parsed(text: str) -> tuple[Any, source.StrictJsonError | None]:
    try:
        return source.parse_json(text), None
    except source.StrictJsonError as error:
        return None, error


def _first_value(path: Path, text: str) -> tuple[dict[str, Any], bool]:
    """The header of a record, or the whole of Google Benchmark's JSON, and whether it is the former."""
    first, _, rest = text.partition("\n")
    document, broken = _parsed(first)
    if isinstance(document, dict) and "schema" in document:
        return document, True
    if rest.strip():
        document, broken = _parsed(text)
    if broken is not None:
        if not text.lstrip().startswith("{"):
            raise refuse(path, "is neither Google Benchmark's JSON nor a journal of roofbench") from broken
        kind = "is cut off" if broken.at_end else "is damaged"
        raise refuse(path, f"{kind}: {broken}") from broken
    if not isinstance(document, dict):
        raise refuse(path, "is JSON, but not a result of roofbench")
    return document, False


def result_of(path: Path, text: str) -> Result:
    """The result in `text`, the content of `path`."""
    value, is_record = _first_value(path, text)
    notes: list[str] = []
    header, lines = (_checked(path, value), _lines(path, text, notes)) if is_record else _converted(path, value)
    cases = _distinct(path, map(_case_of_line, lines))
    facts, contract = dict(header["context"]), read_contract(path, header.get(CONTRACT_KEY))
    host, date = facts.get("host_name", ""), facts.get(STARTED, "")
    return _with_note(Result(path, facts, cases, tuple(notes), host, date, contract, _CONVERTED not in header))


def record_text(path: Path, text: str) -> str:
    """`text` itself if it is a record, or else the record as which result_of() reads it, with exactly its numbers."""
    value, is_record = _first_value(path, text)
    if is_record:
        return text
    header, lines = _converted(path, value)
    return "".join(json.dumps(line) + "\n" for line in (header, *lines))


def expand(patterns: Iterable[str]) -> list[Path]:
    """File names, and patterns that the shell did not expand."""
    paths: list[Path] = []
    for pattern in patterns:
        path = Path(pattern)
        if not any(character in path.name for character in "*?[") or path.exists():
            paths.append(path)
            continue
        found = sorted(path.parent.glob(path.name))
        if not found:
            raise UnusableInputError(f"{pattern}: matches no file")
        paths += found
    return paths


def beginning(result: Result) -> list[str | None]:
    """What a run says of when, where and by which command it began: no two runs share all of it."""
    return [result.context.get(fact) for fact in _BEGINNING]


def are_one_run(one: Result, other: Result) -> bool:
    """Whether two files say the same of one run, as a record and its JSON do, which has the times in other units."""
    if beginning(one) != beginning(other) or not one.context.get(STARTED) or differences(one, other):
        return False
    first, second = ({(case.name, case.repetition): case.seconds for case in each.cases} for each in (one, other))
    return any(first.values()) and all(
        math.isclose(first[name], second[name], rel_tol=_ROUNDED) for name in first.keys() & second.keys()
    )


def load_runs(patterns: Sequence[str]) -> list[Result]:
    """Results of any machines, each run once."""
    return distinct_runs([load(path) for path in expand(patterns)])


def distinct_runs(results: Sequence[Result]) -> list[Result]:
    """Each run once, by its record if that is there."""
    found: list[Result] = []
    for result in results:
        place = next((i for i, one in enumerate(found) if are_one_run(one, result)), None)
        if place is None:
            found.append(result)
            continue
        kept, left = (found[place], result) if found[place].is_record else (result, found[place])
        found[place] = replace(kept, notes=(*left.notes, *kept.notes, f"{left.name} is of the same run, and left out"))
    return found


def load_all(patterns: Sequence[str]) -> list[Result]:
    """Results of several processes, as one side of a comparison. Raises UnusableInputError for different machines."""
    results = load_runs(patterns)
    for other in results[1:]:
        mixed = differences(results[0], other, with_host=True)
        if mixed:
            raise UnusableInputError(
                f"{results[0].path} and {other.path} are of different machines"
                f" ({', '.join(mixed)}): they cannot be one side of a comparison"
            )
    return results
