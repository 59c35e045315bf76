"""One program in several processes."""

from __future__ import annotations

from pathlib import Path

import builders
import fake_roofbench
import pytest
from roofreport import repeat, winners
from roofreport.cli import main
from roofreport.load import load
from roofreport.result import Case, State

EAGER = "norm/impl:eager/d:1"
NATIVE = "norm/impl:native/d:1"


def _case(name: str, milliseconds: float, roof: float, rate: float = 50e9) -> dict[str, object]:
    row = builders.row(name, milliseconds)
    return row | {"roof": roof, "bytes/s": rate}


def _write(folder: Path, number: int, *rows: dict[str, object]) -> Path:
    return builders.write_json(folder / f"{number}.json", list(rows))


def test_the_winner_of_each_piece_of_work() -> None:
    def measured(name: str, seconds: float, **counters: float) -> Case:
        return Case(name, 0, State.MEASURED, seconds=seconds, counters=counters)

    found = winners.find(
        [
            measured(EAGER, 3.0, roof=0.2),
            measured("mlp/d:1", 1.0),
            measured(NATIVE, 1.5, roof=0.75),
            measured("lone/impl:eager", 1.0),
            Case("norm/impl:onednn/d:1", 0, State.SKIPPED),
        ]
    )
    assert [(w.work, w.implementation, w.runner_up, w.lead) for w in found] == [("norm/d:1", "native", "eager", 2.0)]
    assert "75.0 % of the roof, 25.0 % left, 2.00x eager" in found[0].text()


def test_the_table_ends_with_the_winners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path, 1, _case(EAGER, 4, 0.2), _case(NATIVE, 2, 0.4))
    assert main(["table", str(path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "fastest: norm/d:1: native, 2 ms, 40.0 % of the roof, 60.0 % left, 2.00x eager"


def test_medians_extremes_and_memory_modes(tmp_path: Path) -> None:
    paths = [
        # Memory at 50 GB/s, then at 100 GB/s: the same kernel reaches less of it.
        _write(tmp_path, 1, _case(EAGER, 4, 0.25, 12.5e9), _case(NATIVE, 2, 0.9, 45e9)),
        _write(tmp_path, 2, _case(EAGER, 3, 0.25, 25e9), _case(NATIVE, 1, 0.6, 60e9)),
        _write(tmp_path, 3, _case(EAGER, 1, 0.75, 75e9), _case(NATIVE, 1.5, 0.7, 70e9)),
    ]
    table = repeat.summarise([load(path) for path in paths])
    native = [cell.text for cell in next(row for row in table.rows if row[0].text == NATIVE)]
    assert native[1:] == ["3", "1.5 ms", "70.0 %", "60.0 %", "90.0 %", "90.0 %", "65.0 %", "50 … 100 GB/s"]
    assert len(table.legend) == 1
    assert "norm/d:1: native, 1.5 ms, 70.0 % of the roof" in table.legend[0]
    assert "2.00x eager (faster in 2 of 3 processes)" in table.legend[0]


def test_one_memory_mode_is_not_split(tmp_path: Path) -> None:
    paths = [_write(tmp_path, n, _case(NATIVE, 1, 0.5 + n / 100, 50e9)) for n in (1, 2)]
    (row,) = repeat.summarise([load(path) for path in paths]).rows
    assert [cell.text for cell in row[6:8]] == ["", ""]


def test_processes_are_run_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = fake_roofbench.script(tmp_path / "roofbench", f"{EAGER}:4,{NATIVE}:2", tmp_path / "runs")
    assert main(["repeat", program, "--processes=3", f"--keep={tmp_path / 'kept'}"]) == 0
    out = capsys.readouterr().out
    assert "faster in 3 of 3 processes" in out
    assert len(list((tmp_path / "kept").glob("*.json"))) == 3
    assert (tmp_path / "runs").read_text() == "3"


def test_a_case_that_cannot_run_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = f"{EAGER}:4,{NATIVE}:2"
    program = fake_roofbench.script(tmp_path / "roofbench", times, tmp_path / "runs", flags=f"--skip={NATIVE}")
    assert main(["repeat", program, "--processes=2", f"--keep={tmp_path / 'kept'}"]) == 0
    out = capsys.readouterr().out
    assert "skipped: so told" in out
    assert "fastest" not in out


def test_processes_without_a_result_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "broken"
    script.write_text("#!/bin/sh\necho no such flag >&2\nexit 2\n")
    script.chmod(0o755)
    assert main(["repeat", str(script), "--processes=2", f"--keep={tmp_path / 'kept'}"]) == 2
    assert "no process ended with a result" in capsys.readouterr().err


def test_spread_counts_a_process_once_though_its_copy_for_compare_py_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path, 1, _case(NATIVE, 2, 0.4))
    copy = path.with_suffix(".comparable.json")
    copy.write_text(path.read_text())
    assert main(["spread", str(path), str(copy)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(NATIVE))
    assert row.split()[1] == "1"
