# SPDX-License-Identifier: Apache-2.0
"""tools/published: its commands, their order and its errors."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
from published import EXPERIMENTS, main

ROOT = Path(__file__).resolve().parents[2]
FAKE = '#!/bin/sh\necho "$(basename "$0") $*" >>{log}\nexit {status}\n'


def tree(folder: Path, status: int = 0) -> Path:
    for name, ends in (("build/release/bin/roofbench", status), ("tools/report", 0)):
        program = folder / name
        program.parent.mkdir(parents=True)
        program.write_text(FAKE.format(log=folder / "log", status=ends))
        program.chmod(0o755)
    return folder


def test_a_run_and_then_its_reports(tmp_path: Path) -> None:
    assert main(["passes", "--axis=train_step.size=small"], tree(tmp_path)) == 0
    run, table, params = (tmp_path / "log").read_text().splitlines()
    assert run.startswith("roofbench --benchmark_filter=^train_step/")
    assert run.endswith("--benchmark_out=passes.json --axis=train_step.size=small")
    assert run.count("--axis=train_step.size=") == 1, "in place of the experiment's"
    assert table == "report table passes.json --training"
    assert params == "report params passes.json"


def test_a_failed_run_has_no_reports(tmp_path: Path) -> None:
    assert main(["mixed"], tree(tmp_path, status=1)) == 1
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_show_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path)
    for folder, place in ((Path("/"), f"{root}/"), (root, "")):  # the commands work where they are shown
        monkeypatch.chdir(folder)
        assert main(["micro", "--show", "--threads=1"], root) == 0
        run, report = capsys.readouterr().out.splitlines()
        assert shlex.split(run)[-1] == "--threads=1"
        assert report == f"{place}tools/report table micro.json --format=gpt_fast"
    assert not (tmp_path / "log").exists()


def test_without_a_name_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in listed if not line.startswith(" ")]
    assert names == [experiment.name for experiment in EXPERIMENTS]


def test_help_fits_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all\x1b[31m"], "no experiment is called all\\x1b[31m: passes, "),
        (["--threads=1"], "--threads=1 before the name"),
        (["stages"], "roofbench is missing; tools/setup builds it"),
    ],
)
def test_errors_are_explained(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments, tmp_path)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def flags_of(name: str) -> tuple[str, ...]:
    (experiment,) = (one for one in EXPERIMENTS if one.name == name)
    return experiment.flags


def cases_of(name: str) -> list[str]:
    """The registered cases that an experiment selects."""
    (pattern,) = (flag.partition("=")[2] for flag in flags_of(name) if flag.startswith("--benchmark_filter="))
    registered = (ROOT / "tests/golden/case_names.txt").read_text().splitlines()
    return [case for line in registered for case in expanded(line) if re.search(pattern, case)]


def expanded(line: str) -> list[str]:
    """The names of a line of the golden list, in which axis:{a,b} stands for alternatives."""
    parts = [part.split(",") for part in re.split("[{}]", line)]
    return ["".join(choice) for choice in itertools.product(*parts)]


def test_the_lecture_selects_products_and_every_sweep_of_the_mlp_warm() -> None:
    cases = cases_of("lecture")
    assert {case.split("/")[0] for case in cases} == {"matmul", "mlp"}
    assert "--axis=matmul.cache=warm" in flags_of("lecture")
    contract = json.loads((ROOT / "tools/roofreport/contract.json").read_text())
    assert [one["cache_default"] for one in contract["families"] if one["name"] == "mlp"] == ["warm"]
    base = {"steps": 2, "layers": 4, "batch": 256, "d": 256}
    for axis, start in base.items():
        for factor in range(1, 6):
            point = base | {axis: factor * start}
            assert "mlp/dtype:fp32/" + "/".join(f"{name}:{value}" for name, value in point.items()) in cases
    assert "mlp/dtype:fp32/steps:5/layers:16/batch:128/d:128" in cases


def test_the_mlp_selects_every_implementation() -> None:
    sweeps = Counter(re.sub(r"/d:\d+$", "", case) for case in cases_of("mlp"))
    shape = "dtype:fp32/steps:2/layers:4/batch:256"
    assert sweeps == {f"mlp/{impl}{shape}": 5 for impl in ("", "impl:compiled/", "impl:native/")}


def test_the_micro_experiments_select_four_sizes_and_every_implementation() -> None:
    shapes = (
        "gemv/impl:{}/precision:bf16",
        "gemv/impl:{}/precision:int8",
        "gather_gemv/impl:{}/precision:bf16",
        "gather_gemv/impl:{}/precision:int8",
        "layer_norm/impl:{}/dtype:bf16",
        "mlp_layer_norm_gelu/impl:{}",
    )
    sizes = Counter(re.sub(r"/[nd]:(1024|4096|8192|16384)$", "", case) for case in cases_of("micro"))
    assert sizes == {shape.format(impl): 4 for shape in shapes for impl in ("eager", "compiled", "native")}
    assert "--coordinate_descent_tuning" in flags_of("micro")


def test_warm_ups_select_every_pass_in_fresh_processes() -> None:
    flags = flags_of("warmups")
    assert {"--fresh_process", "--benchmark_repetitions=5", "--axis=train_step.warmup=0,1,2,5"} <= set(flags)
    assert "--axis=train_step.pass=forward,forward_backward,step" in flags


def test_the_script_of_llm_int8_warms_up_three_times_and_generates_five_times() -> None:
    assert {"--warmup_iters=3", "--benchmark_min_time=5x"} <= set(flags_of("int8_benchmark"))
    assert cases_of("int8_benchmark") == ["published/impl:eager/experiment:int8_benchmark"]


@pytest.mark.parametrize("name", [experiment.name for experiment in EXPERIMENTS])
def test_the_page_shows_each_command(name: str) -> None:
    assert f"tools/published {name}" in (ROOT / "docs/published.md").read_text().splitlines()
