# SPDX-License-Identifier: Apache-2.0
"""README and docs/: every command works, every link leads somewhere, and README stays short."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import documents
import pytest
import tiny_checkpoint
from built_program import PROGRAM, ROOT, Run

# Commands that other tests run: they build, install, need a network, or are about a program of the reader's own.
ELSEWHERE = {
    "tools/simulated_year": "tests/roofreport/studies/test_simulated_year.py",
    "tools/bench": "tests/tools/test_bench.py",
    "tools/bench --suite=machine": "tests/tools/test_bench.py",
    "tools/test": ".ci/run",
    "tools/test -R benchmarks": ".ci/run",
    "cmake --build --preset release --target roofbench": "tools/setup",
    "cmake --build --preset release --target benchmarks_test": "tools/setup",
    "tools/nightly night.toml": "tests/tools/test_nightly.py",
    "tools/generate_docs": "tests/tools/test_generate_docs.py",
    "build/release/bin/roofbench --benchmark_filter='^hard_swish/'": "tests/package/test_consumer.py",
    "cmake --install build/release --prefix roofbench-tree": "tests/package/installed.py",
    "cmake --install build/release --prefix gpu-tree --component gpu": "tests/package/test_install.py",
    "torch=$(python3 -c 'import importlib.util as u; print(*u.find_spec(\"torch\").submodule_search_locations)')": (
        "tests/tools/test_gpu_check.py"
    ),
    'LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$torch/lib" gpu-tree/bin/gpu_check'
    ' --python="$(command -v python3)" --budget=540 --out="${OUT:-.}/gpu_check.json"': "tests/tools/test_gpu_check.py",
    "cmake -B build -D CMAKE_BUILD_TYPE=Release"
    ' -D "CMAKE_PREFIX_PATH=<folder>;<LibTorch>"': "tests/package/test_consumer.py",
    "cmake --build build": "tests/package/test_consumer.py",
    "build/own_kernel": "tests/package/test_consumer.py",
    'jq -r \'.benchmarks[] | select(.aggregate_name == "median") | "\\(.real_time) \\(.run_name)"\' gelu.json': (
        "tests/program/test_google_benchmark.py"
    ),
    "python3 -m venv bench": "tests/python/test_wheel.py",
    "bench/bin/pip install ./python '.[history]' numpy pytest": "tests/python/test_wheel.py",
}

TINY_STEP = (
    "--axis=train_step.layers=1 --axis=train_step.vocab=100 --axis=train_step.batch=1"
    " --axis=train_step.d_model=64 --axis=train_step.d_ff=128 --axis=train_step.heads=2 --check=off"
)
# Flags that make a command small, added to those that match.
SMALLER = (
    (
        r"^(?!tools/report ).*bin/roofbench (?!.*--(benchmark_list_tests|list_axes|explain_counters|describe|resume))",
        # Two programs at a time, each with two threads on two cores, would wait for each other at every barrier.
        "--benchmark_min_time=3x --warmup_iters=1 --threads=1",
    ),
    # Probes between the samples take most of a small run's time: results that no report reads go without.
    (r"^(tools/published \w|\S*bin/roofbench (?!.*(--benchmark_out|--resume|roof)))", "--roofs=off"),
    (r"^python -m roofbench run (?!.*--(list|resume))", "--max_samples=3 --max_warmup_time=0.01"),
    (r"^\S*roofbench .*train_step", TINY_STEP),
    (r"^tools/published \w", "--benchmark_min_time=3x --warmup_iters=1"),
    (r"^tools/published (passes|warmups|mixed|memory)", TINY_STEP),
    (r"^tools/published warmups", "--benchmark_repetitions=2 --axis=train_step.warmup=0,1"),
    (r"^tools/published lecture", "--axis=matmul.n=64,128,256 --axis=mlp.d=32,64"),
    # Compiling takes a minute; suite_slow_test does.
    (r"^tools/published mlp", "--axis=mlp.d=32 --axis=mlp.impl=eager,native"),
    (r"^tools/published micro", "--axis=gemv.n=1024 --axis=gather_gemv.n=1024 --axis=layer_norm.d=1024"),
    (r"^tools/published micro", "--axis=mlp_layer_norm_gelu.d=1024 --axis=mlp_layer_norm_gelu.hidden=1024"),
    (r"^tools/published gpt_fast", "--axis=published.impl=eager,native"),
    (
        r"^tools/published (gpt_fast|bitsandbytes|int8_benchmark)",
        "--axis=published.model=tiny_llama --axis=published.new=3",
    ),
    (r"^\S*roofbench --suite=machine", "--benchmark_filter='^(read/.*bytes:65536/|parallel_region/)'"),
    (r"^\S*roofbench .*\^attention", "--axis=attention.keys=256"),
    (r"^\S*roofbench .*\^decode_attention", "--axis=decode_attention.keys=256"),
    (r"^\S*roofbench .*\^generate/model", "--axis=generate.model=tiny_llama"),
    (r"^\S*roofbench .*\|prefill\)", "--axis=prefill.model=tiny_llama"),
    (
        r"^\S*roofbench .*decode\.batch=",
        "--axis=decode.batch=1,2,4 --axis=decode.depth=16 --check=off --slow_precisions",
    ),
    (r"^tools/report abba", "--pairs=2 --max-time=0.01 --budget=60min"),  # a busy machine needs more than it says
    (r"^tools/report (abba|spread --run)", "--flag=--axis=softmax.rows=64"),
    (r"^tools/report spread --run", "--flag=--benchmark_min_time=3x"),
    (r"^tools/error_rate simulate", "--pools=2"),
    (r"^tools/error_rate sides", "--comparisons=1"),
    (r"^tools/nsys .*train_step", f"{TINY_STEP} --roofs=off"),
    (r"^tools/peers", "--rounds=1 --samples=2"),
    # Its packages are an environment of gigabytes; PyTorch's own peer needs those of the tests alone.
    (r"^tools/peers (decode|prefill)", "--model=tiny_llama --peers=transformers --bits=bf16"),
    (r"^tools/peers .*--best", "--best=1"),
    (r"^tools/peers collectives", "--bytes 1024"),
    (r"^\S*roofbench --ranks=2,4,6", "--ranks=2,3"),
    (r"^\S*roofbench --ranks=1,2,4 .*bucketed", "--ranks=1,2"),
)

# Blocks of bash are scripts as a whole, which other tests run.
SCRIPTS = {"docs/gate.md": "tests/roofreport/compare/test_bisect.py"}

# Exit statuses other than 0. Whether the machine was disturbed between two runs is not the command's fault.
STATUSES = {"tools/report compare": {0, 1}, "tools/report abba": {0, 1, 125}, "tools/gpu_check": {2}}

PROGRAMS = re.compile(
    r"^\s*(\w+=\S+ )?(build/\S+|tools/\w+|python3?|pip|pytest|roofreport|\.venv/bin/python|cmake|ctest|nsys) ",
    re.MULTILINE,
)


# Runs the program that it is given, and leaves a report.
_NSYS = """#!/bin/bash
[[ $1 == profile ]] || exit 0
shift
while [[ $1 == -* ]]; do
  [[ $1 != --output=* ]] || touch "${1#--output=}.nsys-rep"
  shift
done
exec "$@"
"""

# The commands of an environment that the package and the reports are installed in.
_INSTALLED = {"python": "", "pytest": "-m pytest -p roofbench._pytest", "roofreport": "-m roofreport"}

# Blocks without commands.
SILENT = ("text", "cpp", "cmake", "crontab", "toml", "yaml", "python", "sql")


# Pages whose commands take half a minute or more.
LONG = {f"docs/{name}.md" for name in ("comparing", "distributed", "published", "python", "serving", "training")}


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


RINGS = [
    pytest.param(page, marks=pytest.mark.nightly if page_name(page) in LONG else pytest.mark.slow, id=page_name(page))
    for page in documents.PAGES
    if documents.commands(page)
]


def smaller(command: str) -> str:
    command = command.replace("llama3_1b_4th", "tiny_llama")
    if command.startswith("tools/report "):
        command = command.replace("dtype:bf16/d:4096'", "dtype:bf16/rows:64/d:4096'")
    added = [flag for pattern, flags in SMALLER if re.search(pattern, command) for flag in flags.split(" ")]
    axes = [flag for flag in added if flag.startswith("--axis=") and f"{flag.rpartition('=')[0]}=" in command]
    return " ".join([command, *(flag for flag in added if flag not in axes)])


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """A folder in which the commands run as in the repository's root, with what their reader brings."""
    for name in ("build", "docs", "tools", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("old", "new"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "roofbench").symlink_to(PROGRAM)
    for folder in ("tests/golden", "results/atlas"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    tools = tmp_path / "path"
    tools.mkdir()
    (tools / "nsys").write_text(_NSYS)
    for name, flags in _INSTALLED.items():
        (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} {flags} "$@"\n')
    for example in (ROOT / "python" / "examples").iterdir():
        shutil.copy(example, tmp_path)
    for tool in tools.iterdir():
        tool.chmod(0o755)
    return tmp_path


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("page", RINGS)
def test_commands(page: Path, reader: Path) -> None:
    commands = [command for command in documents.commands(page) if command not in ELSEWHERE]
    if any("CHECKPOINT" in command for command in commands):
        (reader / "CHECKPOINT").mkdir()
        tiny_checkpoint.write(reader / "CHECKPOINT")
    environment = os.environ | {
        "PATH": f"{reader / 'path'}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'python' / 'src'}:{ROOT / 'tools'}",
        "CUDA_VISIBLE_DEVICES": "",
        "ROOFBENCH_PYTHON": str(reader / "none"),  # compiled cases are skipped: each takes most of a minute
        "ROOFBENCH_PEERS_PYTHON": sys.executable,
        "ROOFBENCH_SOURCE_DIR": str(reader),
        "ROOFBENCH_STORE": str(reader / "history.db"),
    }
    for command in commands:
        if command.startswith(".venv/bin/python /usr/share/") and not Path(command.split()[1]).exists():
            continue  # Debian's libbenchmark-tools has it
        done = subprocess.run(
            ["bash", "-c", smaller(command)],
            cwd=reader,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        program = " ".join(command.split()[:2])
        allowed = STATUSES.get(program, STATUSES.get(command, {0}))
        assert done.returncode in allowed, f"{smaller(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert "Traceback" not in done.stderr, command


@pytest.mark.parametrize("page", documents.PAGES, ids=page_name)
def test_no_command_hides_from_the_test(page: Path) -> None:
    for language in SILENT:
        for block in documents.blocks(page, language):
            assert not PROGRAMS.search(block), f"a command in a block of {language}; make the block sh"
    assert len(documents.blocks(page)) == sum(len(documents.blocks(page, name)) for name in ("sh", "bash", *SILENT))
    assert len(documents.blocks(page, "bash")) == (page_name(page) in SCRIPTS)


def test_commands_of_other_tests_are_in_the_pages() -> None:
    every = {command for page in documents.PAGES for command in documents.commands(page)}
    assert set(ELSEWHERE) <= every
    for test in (*ELSEWHERE.values(), *SCRIPTS.values()):
        assert (ROOT / test).exists(), test


def _listed(command: str) -> list[str]:
    return subprocess.run(
        ["bash", "-c", f"{command} --benchmark_list_tests"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.usefixtures("program")
def test_two_sizes_of_ones_own_are_two_cases() -> None:
    (command,) = (one for one in documents.commands(ROOT / "README.md") if "--axis=" in one)
    assert [name.rpartition("/")[2] for name in _listed(command)] == ["n:300", "n:600"]


@pytest.mark.usefixtures("program")
def test_the_first_training_step_is_one_case_of_each_implementation() -> None:
    first = documents.commands(ROOT / "docs" / "training.md")[0]
    assert sorted(name.split("/")[1] for name in _listed(first)) == ["impl:eager", "impl:native"]


@pytest.mark.parametrize("page", [*documents.PAGES, ROOT / "CONTRIBUTING.md"], ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in documents.links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link}: there is no such file"
        if anchor:
            assert anchor in documents.anchors(target), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", [*documents.PAGES, ROOT / "CONTRIBUTING.md"], ids=page_name)
def test_lines_fit_the_screen(page: Path) -> None:
    """Rows of tables and outputs of programs are as wide as they are."""
    kept = re.sub(r"^ *```text\n.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    long = [line for line in kept.splitlines() if len(line) > 120 and not line.startswith("|")]
    assert not long


def test_every_page_is_in_the_index() -> None:
    listed = set(documents.links(ROOT / "docs" / "index.md"))
    assert {page.name for page in documents.PAGES} - {"index.md", "README.md"} <= listed


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_all_passes_of_a_size_are_all(run: Run) -> None:
    (command,) = [one for one in documents.commands(ROOT / "docs/training.md") if "--benchmark_out=steps.json" in one]
    listed = run(*shlex.split(command)[1:], "--benchmark_list_tests").stdout.split()
    passes = ("pass:inference/", "pass:forward/", "pass:forward_backward/", "")  # the default is the whole step
    setups = product(("eager", "native"), passes, ("fp32", "bf16_autocast"))
    assert sorted(listed) == sorted(
        f"train_step/impl:{impl}/{part}size:small/context:128/dtype:{dtype}" for impl, part, dtype in setups
    )
