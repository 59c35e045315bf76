# SPDX-License-Identifier: Apache-2.0
"""Families of Python files: names and axes as the program's, and a run that loses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import documents
import pytest
from built_program import ROOT, Run
from roofbench import _core, _family
from roofbench._family import Axis, Case, Override, UsageError
from roofreport.io.load import load

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
    made = _family.plan(_family.families(), [Override.parse(text) for text in overrides], expression)
    return [planned.name for planned in made]


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
        ({"threads": [1, 2]}, "an axis cannot be called threads"),
        ({"n": []}, "an axis needs at least one value"),
        ({"mode": Axis("a", "b", default="c")}, "'c' is not among the values a, b"),
        ({"n": ["a/b"]}, "is not a value of an axis"),
        ({"n": [True]}, "is not a value of an axis"),
        ({"n": ["1:9"]}, "is not a range"),
        ({"cache": ["hot"]}, "'hot' is not among the values cold, warm"),
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


# Values of every axis, so that the registered points do not matter; and overrides that are refused.
OVERRIDES = [
    ("softmax", ["d=64:512:x2", "rows=8", "dtype=fp32,bf16", "impl=eager", "pass=forward", "cache=warm,cold"]),
    ("matmul", ["n=100:300:+100", "m=n,8", "k=n", "impl=eager,onednn", "dtype=bf16", "cache=cold"]),
    ("gelu", ["elements=1024,1024,2048"]),
    ("gelu", ["elements=1.5"]),
    ("gelu", ["elements=0"]),
    ("gelu", ["elements=01"]),
    ("gelu", ["elements=1099511627777"]),
    ("gelu", ["elements=1:8:x1"]),
    ("gelu", ["elements=1:100000:+1"]),
    ("gelu", ["dtype=fp7"]),
    ("gelu", ["depth=3"]),
    ("gelu", ["elements="]),
]


@pytest.mark.parametrize(("family", "overrides"), OVERRIDES)
def test_axes_are_those_of_the_program(family: str, overrides: list[str], run: Run) -> None:
    """A Python family with the axes of one in the program has its names, and refuses what it refuses."""
    contract = json.loads(run("--describe=json").stdout)
    (described,) = (one for one in contract["families"] if one["name"] == family)
    axes = {axis["name"]: axis for axis in described["axes"]}

    def build(**values: Any) -> Case:
        return Case(dict, **values)

    build.__name__ = family
    specs: dict[str, Any] = {
        name: Axis(*axis["values"], default=axis["default"]) for name, axis in axes.items() if name != "cache"
    }
    made = _family.family(**specs)(build)
    assert [(a["name"], a["kind"], a["default"], a["role"]) for a in made.describe()["axes"]] == [
        (a["name"], a["kind"], a["default"], a["role"]) for a in described["axes"]
    ]
    flags = [f"--axis={family}.{override}" for override in overrides]
    done = run(*flags, f"--benchmark_filter=^{family}/", "--benchmark_list_tests", "--suite=full")
    try:
        mine = names("", *(f"{family}.{override}" for override in overrides))
    except UsageError as refused:
        assert done.returncode == 2
        # The texts are the program's where they do not name its own flags.
        said = str(refused).partition(": ")[2].partition(";")[0].split(", ")[0]
        assert said in done.stderr or "expected [family.]name" in done.stderr or "depth" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    theirs = [line.strip() for line in done.stdout.splitlines()]
    assert mine == theirs if len(overrides) == len(axes) else set(mine) and theirs


@pytest.mark.slow
def test_every_end_of_a_case_is_a_row(families: Callable[..., Any], tmp_path: Path) -> None:
    done = families(ENDS, *QUICKLY, "--json=out.json", "--journal=out.jsonl")
    assert done.returncode == 1, done.stderr
    result, journal = load(tmp_path / "out.json"), load(tmp_path / "out.jsonl")
    found = {case.name.removeprefix("total/impl:").removesuffix("/n:8"): case for case in result.cases}
    assert {end: case.why_not for end, case in found.items() if case.state.value != "measured"} == {
        "raises": "failed: ValueError: a ?[31mbad\\nnumber",
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
def test_rows_carry_axes_and_the_contract_of_their_families(families: Callable[..., Any], tmp_path: Path) -> None:
    done = families(ENDS, *QUICKLY, "--filter=fine", "--axis=n=4,16", "--repetitions=2", "--json=out.json")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    shown = [(row["run_name"], row.get("repetition_index"), row["n"], row["cache"]) for row in document["benchmarks"]]
    assert [row for row in shown if row[1] is not None] == [
        (f"total/impl:fine/n:{n}", repetition, n, "cold") for n in (4, 16) for repetition in (0, 1)
    ]
    repeated = [row for row in document["benchmarks"] if "repetition_index" in row]
    assert [row["family_index"] for row in repeated] == [0, 0, 1, 1]
    contract = json.loads(document["context"]["contract"])
    assert [family["name"] for family in contract["families"]] == ["total"]
    assert contract["families"][0]["doc"] == "the sum of a list"
    assert document["context"]["program"] == "kernels.py"


@pytest.mark.slow
def test_a_hang_ends_at_its_limit_and_the_run_goes_on(families: Callable[..., Any], tmp_path: Path) -> None:
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
    done = families(text, *QUICKLY, "--timeout=15", "--json=out.json")
    assert done.returncode == 1
    assert [case.why_not for case in load(tmp_path / "out.json").cases] == [
        "failed: not finished after 15 s (--timeout)",
        "measured",
    ]


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


@pytest.fixture
def waiting(package_env: dict[str, str], tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A run whose second case has begun, and the process of that case."""
    (tmp_path / "kernels.py").write_text(textwrap.dedent(WAITS))
    flags = ["--json=out.json", "--journal=out.jsonl", *QUICKLY]
    with subprocess.Popen(
        [sys.executable, "-m", "roofbench", "run", "kernels.py", *flags],
        cwd=tmp_path,
        env=package_env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        builds = tmp_path / "builds"
        while process.poll() is None and (not builds.exists() or builds.read_text().count("\n") < 2):
            time.sleep(0.01)
        yield process, int(builds.read_text().split()[-1])
        process.kill()


def resume(run_python: Callable[..., Any], tmp_path: Path) -> Any:
    (tmp_path / "go").touch()
    return run_python("-m", "roofbench", "run", "kernels.py", "--resume", "--json=out.json")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_was_measured(
    number: signal.Signals,
    waiting: tuple[subprocess.Popen[str], int],
    run_python: Callable[..., Any],
    tmp_path: Path,
) -> None:
    process, case = waiting
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number
    assert not is_alive(case)
    assert [case.name for case in load(tmp_path / "out.json").cases] == ["waits/n:1"]
    assert (tmp_path / "out.unfinished").exists()
    done = resume(run_python, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in (tmp_path / "builds").read_text().splitlines()] == ["1", "2", "2", "3"]
    for name in ("out.json", "out.jsonl"):
        assert [case.name for case in load(tmp_path / name).cases] == ["waits/n:1", "waits/n:2", "waits/n:3"]
    assert not (tmp_path / "out.unfinished").exists()


@pytest.mark.slow
def test_kill_9_loses_only_the_running_case(
    waiting: tuple[subprocess.Popen[str], int], run_python: Callable[..., Any], tmp_path: Path
) -> None:
    process, case = waiting
    process.kill()
    process.communicate()
    while is_alive(case):
        time.sleep(0.01)
    with (tmp_path / "out.jsonl").open("a") as file:
        file.write('{"name": "waits/n:2", "repet')  # as if the last write had not been completed
    done = resume(run_python, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "cut off" in done.stderr
    assert len(load(tmp_path / "out.jsonl").cases) == 3


@pytest.mark.slow
def test_a_journal_of_another_run_is_refused(families: Callable[..., Any], tmp_path: Path) -> None:
    text = "import roofbench\n@roofbench.family(n=[1])\ndef f(n):\n    return roofbench.Case(sum, [n])\n"
    assert families(text, *QUICKLY, "--journal=j").returncode == 0
    for changed, flags in ((text + "\n", ()), (text, ("--axis=n=2",))):
        done = families(changed, *QUICKLY, "--journal=j", "--resume", *flags)
        assert (done.returncode, "belongs to another run" in done.stderr) == (2, True), done.stderr
    lines = (tmp_path / "j").read_text().splitlines()
    (tmp_path / "j").write_text("\n".join([lines[0], "{}", lines[1]]) + "\n")
    done = families(text, *QUICKLY, "--journal=j", "--resume")
    assert (done.returncode, "damaged in line 2" in done.stderr) == (2, True), done.stderr
    assert families(text, *QUICKLY, "--journal=j").returncode == 0
    assert (tmp_path / "j.previous").read_text().splitlines()[1] == "{}"
    (tmp_path / "notes.txt").write_text("mine\n")
    assert families(text, *QUICKLY, "--journal=notes.txt").returncode == 2
    assert (tmp_path / "notes.txt").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("import roofbench", (), "declares no family"),
        ("import absent_module", (), "kernels.py cannot be loaded: ModuleNotFoundError"),
        (ENDS, ("--filter=impl:fune",), "did you mean 'impl:fine' for 'impl:fune'?"),
        (ENDS, ("--filter=(",), "not a valid regular expression"),
        (ENDS, ("--timeout=0",), "--timeout"),
        (ENDS, ("--resume",), "--resume needs the --journal"),
        (ENDS, ("--resume", "--json=none.json"), "there is no unfinished run of none.json"),
        (ENDS, ("--json=none/out.json",), "cannot be written"),
        (ENDS, ("--json=out", "--journal=./out"), "the same file"),
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
    assert done.returncode == 0 and "--max_samples N" in done.stdout and "--timeout S" in done.stdout
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
        done = families(
            ENDS, "--filter=fine|prints|skips", "--axis=n=8:512:x8", f"--json={out}.json", f"--journal={out}.j"
        )
        assert done.returncode == 0, done.stderr
    for verb, *arguments in (
        ("table", "one.json", "two.j"),
        ("summary", "one.json"),
        ("scaling", "one.json"),
        ("compare", "--base", "one.json", "--new", "two.json"),
        ("history", "add", "one.json", "one.j", "two.json", "--store=history.db"),
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
    assert done.returncode == 0, done.stdout + done.stderr
    assert "total/impl:fine/n:8" in done.stdout
