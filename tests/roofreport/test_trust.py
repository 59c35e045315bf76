# SPDX-License-Identifier: Apache-2.0
"""One rule of trust: rows in doubt are shown by every verb, and none concludes from them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import builders
import fake_roofbench
import histories
import pytest
from reports import Report
from roofreport.cli import VERBS
from roofreport.history.store import open_store
from roofreport.io.reliability import IN_DOUBT

# What a row says of itself, and what the reports call it.
DOUBTS: dict[str, tuple[dict[str, Any], str]] = {
    "disturbed": ({"disturbed": 1.0}, "disturbed"),
    "noisy": ({"noisy": 1.0, "ci": 1.5}, "noisy (ci >100 %)"),
    "throttled": ({"throttled": 1.0}, "throttled"),
    "few samples": ({"samples": 1.0}, "sample"),
    "interrupted": ({"label": "interrupted"}, "interrupted"),
}
NIGHTS = 8
READ_NO_ROWS = {"profile", "memory", "accept"}


def _rows(factor: float) -> list[dict[str, Any]]:
    """Work of every kind that some verb concludes from."""
    products = [
        builders.row(f"matmul/impl:{impl}/dtype:fp32/n:{n}", factor * share * (n / 256) ** 3)
        for impl, share in (("eager", 1.0), ("onednn", 0.5))
        for n in (256, 512, 1024)
    ]
    generations = [builders.generation("m", precision, rate, 1e9) for precision, rate in (("bf16", 50), ("int8", 90))]
    serving = [
        builders.row(f"decode/model:m/precision:bf16/batch:{batch}/depth:128", factor * time)
        | {"tokens/s": rate, "model_bytes": 1e9}
        for batch, time, rate in ((1, 10.0, 100.0), (2, 10.0, 200.0), (4, 20.0, 200.0))
    ]
    ranks = [
        builders.row(
            f"mlp/dtype:fp32/steps:2/layers:4/batch:256/d:256/parallel:ddp_flat/ranks:{ranks}",
            factor * (50.0 + ranks),
        )
        | {"computation_ms": 50.0, "communication_ms": 1.0 * ranks, "exposed_communication_ms": 1.0 * ranks}
        for ranks in (1, 2, 4, 8)
    ]
    steps = [
        builders.row(f"train_step/impl:eager/size:{size}/context:128/dtype:{dtype}", factor * time)
        | {"tokens/s": 1e5 / time, "parameters": parameters, "forward_mean_ms": time / 3, "forward_stddev_ms": 1.0}
        | {"backward_mean_ms": time / 2, "backward_stddev_ms": 1.0}
        for size, parameters in (("small", 1e8), ("medium", 4e8))
        for dtype, time in (("fp32", parameters / 1e6), ("bf16_autocast", parameters / 2e6))
    ]
    return [*products, *generations, *serving, *ranks, *steps]


# What reports print only where they conclude.
CONCLUSION = re.compile(
    r"\d\.\d\dx|% of the roof, |fastest here|precision to serve in: [^:]*: \w+,|knee at|knee up to|\^\d|expected \w+\^"
    r"|hidden;|predicted$|\b(SAME|FASTER|SLOWER|DRIFT)\b|overhead-bound|[+-]\d+\.\d %$",
    re.MULTILINE,
)


@pytest.fixture(params=DOUBTS)
def doubt(request: pytest.FixtureRequest) -> tuple[dict[str, Any], str]:
    return DOUBTS[request.param]


def _files(folder: Path, said: dict[str, Any]) -> tuple[Path, Path]:
    base, new = ([row | said for row in _rows(factor)] for factor in (1.0, 6.0))
    return builders.write_json(folder / "base.json", base), builders.write_json(folder / "new.json", new)


_READS: dict[str, list[list[str]]] = {
    "table": [["{new}"], ["{base}", "{new}"], ["{base}", "--baseline=impl:eager"], ["{base}", "--training"]],
    "summary": [["{base}"], ["{base}", "{base2}"]],
    "compare": [["{base}", "{new}"]],
    "spread": [["{base}", "{base2}"]],
    "scaling": [["{base}"]],
    "ranks": [["{base}", "--predict=64"]],
    "serving": [["{base}"]],
    "params": [["{base}"]],
    "machine": [["{base}"], ["{base}", "{other}"]],
}


def _printed(verb: str, folder: Path, said: dict[str, Any], report: Report) -> str:
    base, new = _files(folder, said)
    again = folder / "again.json"
    again.write_bytes(base.read_bytes())
    document = json.loads(new.read_text())
    document["context"]["device"] = "another machine"
    other = folder / "other.json"
    other.write_text(json.dumps(document))
    places = {"base": str(base), "new": str(new), "base2": str(again), "other": str(other)}
    status = 1 if verb == "compare" and not said else 0
    return "".join(report(verb, *(part.format(**places) for part in line), status=status) for line in _READS[verb])


@pytest.mark.parametrize("verb", _READS)
def test_rows_in_doubt_are_no_conclusion(
    verb: str, doubt: tuple[dict[str, Any], str], tmp_path: Path, report: Report
) -> None:
    said, why = doubt
    assert CONCLUSION.search(_printed(verb, tmp_path, {}, report)), "a quiet machine's rows are one"
    out = _printed(verb, tmp_path, said, report)
    assert not CONCLUSION.search(out), CONCLUSION.search(out)
    assert why.partition(" (")[0] in out or IN_DOUBT in out


def test_points_of_a_sweep(doubt: tuple[dict[str, Any], str], tmp_path: Path, report: Report) -> None:
    base, _ = _files(tmp_path, doubt[0])
    assert {row["x time"] for row in report.rows("scaling", base, "--points")} == {IN_DOUBT}


def test_abba(doubt: tuple[dict[str, Any], str], tmp_path: Path, report: Report) -> None:
    flag = next(iter(doubt[0]))
    if flag in ("samples", "label"):
        pytest.skip("ten processes have enough samples together, and an interrupted one is no process")
    program = fake_roofbench.script(tmp_path / "bin", "a/n:1:1.0", tmp_path / "runs", flags=f"--doubtful={flag}")
    budget = (f"--state={tmp_path / 'state'}", "--budget=60min", "--pairs=10")
    out = report("abba", program, program, "--flag=--factor=2", *budget, "--flag=--noise=0.002", status=125)
    assert out.splitlines()[2].startswith("AMBIGUOUS") and f"base: {flag}; new: {flag}" in out


def _history(folder: Path, said: dict[str, Any]) -> Path:
    """Nights of one level, and a last one that is six times slower."""

    def of_night(night: int, _: object) -> list[dict[str, Any]]:
        return [row | (said if night == NIGHTS - 1 else {}) for row in _rows(6.0 if night == NIGHTS - 1 else 1.0)]

    return histories.add(folder / "history.db", range(NIGHTS), of_night)


def _gate(store: Path, report: Report) -> str:
    return report("gate", f"--store={store}")


def _history_show(store: Path, report: Report) -> str:
    out = report("history", "show", "matmul/impl:eager/dtype:fp32/n:256", f"--store={store}")
    last = out.splitlines()[-2]
    assert "6 ms" in last, "the figure is shown"
    return last


def _history_export(store: Path, report: Report) -> str:
    out = report("history", "export", "--format=github-action-benchmark-smaller", f"--store={store}")
    return "SLOWER" if any(row["name"].endswith(": time") for row in json.loads(out)) else ""


def _site(store: Path, report: Report) -> str:
    report("site", f"--store={store}", f"--out={store.with_name('site')}")
    page = (store.with_name("site") / "index.html").read_text()
    return "SLOWER" if re.search(r"slower|\+\d+ times|6 times", page.partition("<tbody")[2]) else ""


@pytest.mark.parametrize("conclusion", [_gate, _history_show, _history_export, _site])
def test_a_night_in_doubt_is_no_conclusion(
    conclusion: Callable[[Path, Report], str], doubt: tuple[dict[str, Any], str], tmp_path: Path, report: Report
) -> None:
    assert not CONCLUSION.search(conclusion(_history(tmp_path, doubt[0]), report))


def test_a_history_of_an_older_program_is_held_to_the_same_rule(tmp_path: Path, report: Report) -> None:
    store = _history(tmp_path, {"disturbed": 1.0})
    with open_store(str(store)) as opened, opened.database.writing() as connection:
        connection.exec_driver_sql("UPDATE roofbench_readings SET noisy = 0, reason = ''")
    assert "not judged: disturbed" in _gate(store, report)


def test_a_mark_in_doubt_is_hollow(doubt: tuple[dict[str, Any], str], tmp_path: Path, report: Report) -> None:
    base, _ = _files(tmp_path, doubt[0])
    for verb in ("roofline", "scaling", "serving"):
        report(verb, base, f"--svg={tmp_path / 'a.svg'}")
        assert doubt[1].partition(" (")[0] in (tmp_path / "a.svg").read_text() or verb == "roofline"


def test_no_verb_is_left_out() -> None:
    judged_by_others = {"abba", "gate", "history", "site", "roofline"}  # in the tests above
    assert {*_READS, *judged_by_others, *READ_NO_ROWS} == set(VERBS)
