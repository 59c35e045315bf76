# SPDX-License-Identifier: Apache-2.0
"""Families of Python files: names and axes as the program's, and a run that loses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import documents
import pytest
from built_program import ROOT
from roofbench import _core, _family
from roofbench._family import Axis, Case, UsageError
from roofreport.io.load import is_complete, load

QUICKLY = ("--max_samples=3", "--max_warmup_time=0.01")

# Each implementation meets its own end.
ENDS = """
    import ctypes, os, sys
    import roofbench

    ENDS = ["fine", "raises", "crashes", "exits", "killed", "skips", "starves", "prints"]

    @roofbench.family(impl=ENDS, n=[8], growth={"n": 1})
    def total(impl, n):
        '''the sum of a list'''
        if impl == "raises":
            raise ValueError("a \\x1b[31mbad\\nnumber")
        if impl == "crashes":
            ctypes.string_at(0)
        if impl == "exits":
            sys.exit(3)
        if impl == "killed":
            os.kill(os.getpid(), 9)
        if impl == "skips":
            raise roofbench.Skip("it needs a GPU")
        if impl == "starves":
            raise MemoryError("8 GiB")
        if impl == "prints":
            print("what a kernel prints")
        return roofbench.Case(sum, list(range(n)))
"""


@pytest.fixture(autouse=True)
def no_other_families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_family, "_FAMILIES", {})


def names(expression: str = "", *overrides: str) -> list[str]:
    return [planned.point.name for planned in _family.plan(_family.families(), overrides, expression)]


def declare(**axes: Any) -> _family.Family:
    """A family `matmul` with these axes."""

    def matmul(**values: Any) -> Case:
        return Case(dict, **values)

    return _family.family(**axes)(matmul)


def test_names_omit_defaults_and_begin_with_the_implementation() -> None:
    one = declare(n="256:1024:x2", k=Axis("n", 64, default="n"), impl=["eager", "compiled"])
    assert names("eager.*n:256") == ["matmul/impl:eager/n:256", "matmul/impl:eager/n:256/k:64"]
    assert names("cache:warm", "cache=warm,cold", "k=n", "n=3")[0] == "matmul/impl:eager/n:3/cache:warm"
    values = one.values_of(one.points()[0])
    assert values == {"impl": "eager", "n": 256, "k": 256, "cache": "cold"}


def test_a_filter_may_spell_defaults_out_and_be_inverted() -> None:
    declare(n=[1, 2], d=Axis(8, default=8))
    assert names("d:8/cache:cold") == names() == ["matmul/n:1", "matmul/n:2"]
    assert names("-n:1$|n:1/") == ["matmul/n:2"]
    assert names("^matmul/n:1/manual_time$") == ["matmul/n:1"]


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ({"n": []}, "axis n needs at least one value"),
        ({"mode": Axis("a", "b", default="c")}, r"'c' is not a value of its axis mode \(a, b\)"),
        ({"n": [1, 1 << 41]}, r"'2199023255552' is not a value of its axis n \(a whole number from 1\)"),
        ({"n": ["a/b"]}, "is not a value of an axis"),
        ({"n": [True]}, "is not a value of an axis"),
        ({"n": ["1:9"]}, "is not a range"),
        ({"cache": ["hot"]}, r"'hot' is not a value of its axis cache \(cold, warm\)"),
        ({"n": [1], "growth": {"m": 2}}, "there is no axis m"),
    ],
)
def test_a_declaration_that_cannot_be_run_is_refused(declaration: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        declare(**declaration)


def test_a_function_needs_a_parameter_for_each_axis_and_its_own_name() -> None:
    def one(n: int) -> Case:
        return Case(dict, n)

    with pytest.raises(UsageError, match="no parameter m"):
        _family.family(n=[1], m=[2])(one)
    _family.family(n=[1])(one)
    first = one

    def one(n: int) -> Case:  # type: ignore[no-redef]  # the mistake
        return Case(dict, n)

    assert first is not one
    with pytest.raises(UsageError, match="declared twice"):
        _family.family(n=[1])(one)


def test_a_case_leaves_the_cache_to_the_axis() -> None:
    def one(n: int) -> Case:
        return Case(dict, cache="warm")

    with pytest.raises(TypeError, match="the axis cache says cold"):
        made = _family.family(n=[1])(one)
        made.case_at(made.points()[0])


@pytest.mark.parametrize(
    ("values", "kind", "first"),
    [
        (["8:32:x2"], "number", 8),
        ([2.5, 3], "decimal", 2.5),
        ([0, 1], "decimal", 0.0),
        (["fp32", 1], "choice", "fp32"),
        (["1.10"], "choice", "1.10"),
    ],
)
def test_an_axis_is_of_the_kind_of_its_values(values: list[Any], kind: str, first: Any) -> None:
    made = declare(x=values)
    assert made.kinds == {"x": kind, "cache": "choice"}
    value = made.values_of(made.points()[0])["x"]
    assert (value, type(value)) == (first, type(first))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("n=1.5", "'1.5' is not a value of axis n of matmul; expected a whole number from 1"),
        ("n=1:8:x1", "--axis=n=1:8:x1: '1:8:x1' is not a range"),
        ("depth=3", "no family has an axis 'depth'; there are cache, n"),
        ("gemv.n=3", "there is no family 'gemv'; there are matmul"),
        ("n=", r"--axis=n=: expected \[family.\]name=v1,v2,…; --list lists the names"),
    ],
)
def test_values_are_refused_as_the_program_does(override: str, message: str) -> None:
    declare(n=[1])
    with pytest.raises(UsageError, match=message):
        names("", override)


@pytest.mark.slow
def test_every_end_of_a_case_is_a_row(families: Callable[..., Any], tmp_path: Path) -> None:
    done = families(ENDS, *QUICKLY, "--benchmark_out=out.json", "--journal=out.jsonl")
    assert done.returncode == 1, done.stderr
    result, journal = load(tmp_path / "out.json"), load(tmp_path / "out.jsonl")
    found = {case.name.removeprefix("total/impl:").removesuffix("/n:8"): case for case in result.cases}
    assert {end: case.why_not for end, case in found.items() if case.state.value != "measured"} == {
        "raises": "failed: ValueError: a \\x1b[31mbad\\nnumber",
        "crashes": "failed: crashed (SIGSEGV, Segmentation fault)",
        "exits": "failed: ended with exit status 3",
        "killed": "failed: killed (SIGKILL), most likely by the system for memory",
        "skips": "skipped: it needs a GPU",
        "starves": "OOM: out of memory: 8 GiB",
    }
    assert [case.name for case in journal.cases] == [case.name for case in result.cases]
    assert all(journal.merged()[name].seconds == pytest.approx(case.seconds) for name, case in result.merged().items())
    assert "what a kernel prints" not in done.stdout
    assert "what a kernel prints" in done.stderr
    assert "2 measured, 2 skipped, 4 failed" in done.stdout


@pytest.mark.slow
def test_a_record_has_axes_and_the_contract_of_its_families(families: Callable[..., Any], tmp_path: Path) -> None:
    flags = ("--filter=fine", "--axis=n=4,16", "--repetitions=2", "--journal=out.jsonl", "--benchmark_out=out.json")
    done = families(ENDS, *QUICKLY, *flags)
    assert done.returncode == 0, done.stderr
    header, *lines = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert [(line["name"], line["repetition"], line["axes"]) for line in lines] == [
        (f"total/impl:fine/n:{n}", repetition, {"impl": "fine", "n": n, "cache": "cold"})
        for n in (4, 16)
        for repetition in (0, 1)
    ]
    (family,) = header["contract"]["families"]
    assert (family["name"], family["doc"]) == ("total", "the sum of a list")
    assert header["context"]["program"] == "kernels.py"
    # For compare.py: neither axes nor contract.
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["context"].items() >= header["context"].items() and "contract" not in document["context"]
    rows = document["benchmarks"]
    assert [(row["family_index"], row["run_name"], row["repetition_index"]) for row in rows] == [
        (index, f"total/impl:fine/n:{n}", repetition) for index, n in enumerate((4, 16)) for repetition in (0, 1)
    ]
    for row, line in zip(rows, lines, strict=True):
        assert row["real_time"] == pytest.approx(1e6 * line["median_s"]) and row["time_unit"] == "us"
        assert row["label"] == line["stop"] and row["samples"] == 3 and "n" not in row


@pytest.mark.slow
def test_what_a_case_started_ends_with_it(families: Callable[..., Any], tmp_path: Path) -> None:
    text = """
        import os, pathlib, subprocess, time
        import roofbench

        def runs(pid):
            stat = pathlib.Path(f"/proc/{pid}/stat")
            return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"

        @roofbench.family(impl=["hangs", "fine"])
        def waits(impl):
            pids = pathlib.Path("pids")
            if impl == "hangs":
                sleep = subprocess.Popen(["sleep", "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                pids.write_text(f"{os.getpid()} {sleep.pid}")
                time.sleep(3600)
            left = [pid for pid in pids.read_text().split() if runs(pid)]
            if left:
                raise RuntimeError(f"still running: {left}")
            return roofbench.Case(sum, [1, 2])
    """
    done = families(text, *QUICKLY, "--timeout=15", "--journal=out.jsonl")
    assert done.returncode == 1
    assert [case.why_not for case in load(tmp_path / "out.jsonl").cases] == [
        "failed: not finished after 15 s (--case_timeout)",
        "measured",
    ]


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("import roofbench", (), "declares no family"),
        ("import absent_module", (), "kernels.py cannot be loaded: ModuleNotFoundError"),
        (ENDS, ("--filter=impl:fune",), "did you mean 'impl:fine' for 'impl:fune'?"),
        (ENDS, ("--filter=(",), "not a valid regular expression"),
        (ENDS, ("--case_timeout=0",), "--case_timeout"),
        (ENDS, ("--resume",), "--resume needs --journal=FILE"),
        (ENDS, ("--journal=none/out.jsonl",), "cannot be written"),
        (ENDS, ("--benchmark_out=out", "--journal=./out"), "the same file"),
    ],
)
def test_a_refused_command_line_says_why(
    text: str, flags: tuple[str, ...], message: str, families: Callable[..., Any], tmp_path: Path
) -> None:
    done = families(text, *flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert not done.stdout


def test_the_version_the_help_and_a_command_line_of_nothing(run_python: Callable[..., Any]) -> None:
    done = run_python("-m", "roofbench", "--version")
    assert (done.returncode, done.stdout) == (0, f"roofbench {_core.version} ({_core.git_revision})\n")
    done = run_python("-m", "roofbench", "run", "--help")
    assert done.returncode == 0 and "--max_samples N" in done.stdout and "--case_timeout S" in done.stdout
    done = run_python("-m", "roofbench")
    assert (done.returncode, done.stdout) == (2, "") and "required: run" in done.stderr


def test_the_flags_of_the_programs_callers_are_understood(families: Callable[..., Any]) -> None:
    listed = families(ENDS, "--benchmark_list_tests", "--benchmark_filter=^total/impl:(fine|exits)/n:8/manual_time$")
    assert listed.stdout.split() == ["total/impl:fine/n:8", "total/impl:exits/n:8"]
    contract = json.loads(families(ENDS, "--describe=json").stdout)
    assert contract["schema"] == "roofbench-contract-1"
    assert {counter["name"] for counter in contract["counters"]} >= {"roof", "ci"}
    as_json = json.loads(families(ENDS, "--list=json", "--filter=fine").stdout)
    assert as_json == [{"name": "total/impl:fine/n:8", "axes": {"impl": "fine", "n": 8, "cache": "cold"}}]


def test_a_journal_alone_says_how_its_run_continues(families: Callable[..., Any], tmp_path: Path) -> None:
    text = "import roofbench\n@roofbench.family(n=[1, 2, 3])\ndef f(n):\n    return roofbench.Case(sum, [n])\n"
    flags = ("--filter=n:(1|2)", "--max_samples=5", "--max_warmup_time=0.01")
    assert families(text, *flags, "--journal=j", "--case_timeout=50").returncode == 0
    journal = tmp_path / "j"
    header, first, second = journal.read_text().splitlines()
    assert json.loads(header)["cases"] == 2
    assert json.loads(header)["arguments"] == ["run", "kernels.py", *flags, "--journal=j", "--case_timeout=50"]
    assert is_complete(journal)
    journal.write_text(f"{header}\n{first}\n")
    assert not is_complete(journal)
    done = families(text, "--journal=j", "--resume", "--benchmark_out=out.json")
    assert done.returncode == 0, done.stderr
    names = [json.loads(line)["name"] for line in journal.read_text().splitlines()[1:]]
    assert names == [json.loads(line)["name"] for line in (first, second)]
    assert len(json.loads((tmp_path / "out.json").read_text())["benchmarks"]) == 2
    assert families(text, "--journal=j", "--resume", "--filter=n:3").returncode == 2


@pytest.mark.slow
def test_a_full_disk_costs_no_result(families: Callable[..., Any], package_env: dict[str, str], tmp_path: Path) -> None:
    text = "import roofbench\n@roofbench.family(n=[1, 2])\ndef f(n):\n    return roofbench.Case(sum, [n])\n"
    flags = ("--max_samples=500", "--max_warmup_time=0.01")
    assert families(text, *flags, "--journal=j").returncode == 0
    header = (tmp_path / "j").read_text().partition("\n")[0]
    # As on a full disk: in blocks of a KiB, the header fits and no line with its samples does.
    command = f"ulimit -f {len(header.encode()) // 1024 + 1}; exec {sys.executable} -m roofbench run kernels.py"
    done = subprocess.run(
        ["bash", "-c", " ".join([command, *flags, "--journal=full"])],
        cwd=tmp_path,
        env=package_env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("cannot write full: ")) == (1, 2), done.stderr
    assert "2 measured" in done.stdout
    written = (tmp_path / "full").read_text()
    assert (written.count("\n"), written[-1]) == (1, "\n")
    assert families(text, *flags, "--journal=full", "--resume").returncode == 0
    assert len(load(tmp_path / "full").cases) == 2


# Its second case waits until the test lets it continue; each build leaves a line.
WAITS = """
    import os, pathlib, time
    import roofbench

    @roofbench.family(n=[1, 2, 3])
    def waits(n):
        with open("builds", "a") as file:
            print(n, os.getpid(), file=file, flush=True)
        while n == 2 and not pathlib.Path("go").exists():
            time.sleep(0.01)
        return roofbench.Case(sum, [n])
"""


@pytest.mark.slow
def test_a_nightly_of_a_file_resumes_and_is_judged(package_env: dict[str, str], tmp_path: Path) -> None:
    """By the configuration of docs/python.md."""
    waits = textwrap.dedent(WAITS).replace('"builds"', f'"{tmp_path}/builds"').replace('"go"', f'"{tmp_path}/go"')
    (tmp_path / "kernels.py").write_text(waits)
    text = documents.block(ROOT / "docs" / "python.md", "toml")
    program = f"{sys.executable} -m roofbench run {tmp_path}/kernels.py"
    text = text.replace("/home/me/bench/bin/python -m roofbench run /home/me/kernels/families.py", program)
    text = text.replace('"/home/me/bench/bin/python"', f'"{sys.executable}"')
    text = text.replace('"/home/me/kernels/families.py"', f'"{tmp_path}/kernels.py"')
    assert "/home/me" not in text
    (tmp_path / "night.toml").write_text(text)
    command = [sys.executable, "-m", "nightly_runs", str(tmp_path / "night.toml"), "--date=2026-01-31"]
    with subprocess.Popen(command, env=package_env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        builds = tmp_path / "builds"
        while run.poll() is None and (not builds.exists() or builds.read_text().count("\n") < 2):
            time.sleep(0.01)
        run.terminate()
        said = run.communicate()[0]
    assert run.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM), said
    (tmp_path / "go").touch()
    done = subprocess.run(command, env=package_env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "from the journal" in done.stdout + done.stderr
    (night,) = (tmp_path / "nights").glob("2026-*")
    results = sorted(night.glob("result*.json"))
    assert len(results) == 3
    assert all(len(load(path).cases) == 3 for path in results)
    assert "waits/n:2" in (night / "gate.md").read_text()
    assert (tmp_path / "site" / "index.html").exists()


@pytest.mark.slow
def test_the_reports_take_the_results(families: Callable[..., Any], run_python: Callable[..., Any]) -> None:
    for out in ("one", "two"):
        done = families(ENDS, "--filter=fine|prints|skips", "--axis=n=8:512:x8", f"--journal={out}.j")
        assert done.returncode == 0, done.stderr
    for verb, *arguments in (
        ("table", "one.j", "two.j"),
        ("summary", "one.j"),
        ("scaling", "one.j"),
        ("compare", "--base", "one.j", "--new", "two.j"),
        ("history", "add", "one.j", "two.j", "--store=history.db"),
        ("gate", "--store=history.db"),
        ("site", "--store=history.db", "--out=site"),
        ("history", "export", "--format=parquet", "--output=history.parquet", "--store=history.db"),
    ):
        done = run_python("-m", "roofreport", verb, *arguments)
        assert done.returncode == 0 or (verb, done.returncode) == ("compare", 1), (verb, done.stdout, done.stderr)
        assert verb in ("history", "site") or "total" in done.stdout, (verb, done.stdout)


@pytest.mark.slow
def test_abba_compares_two_files_of_families(families: Callable[..., Any], run_python: Callable[..., Any]) -> None:
    assert families(ENDS, "--list").returncode == 0
    program = f"{sys.executable} -m roofbench run kernels.py"
    abba = ("abba", program, program, "--filter=impl:fine", "--pairs=2", "--max-time=0.01", "--budget=60min")
    done = run_python("-m", "roofreport", *abba, "--state=again")
    assert done.returncode == 125, "two pairs decide nothing: " + done.stdout + done.stderr
    assert "total/impl:fine/n:8" in done.stdout
