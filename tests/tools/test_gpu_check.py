# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check: its arguments, what it says without a GPU, and what it makes of the programs' answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gpu_check
import pytest

ROOT = Path(__file__).resolve().parents[2]

# A roofbench with a GPU: answers the probe, and writes results where it is asked to.
PROGRAM = """#!{python}
import json, sys
flags = dict(flag.lstrip("-").split("=", 1) for flag in sys.argv[1:] if "=" in flag)
assert flags["device"] == "cuda"
if "journal" in flags:
    assert "--resume" in sys.argv, "what an earlier call has measured is not measured again"
    open(flags["journal"], "a").write("a call" + chr(10))
if "benchmark_out" in flags:
    cases = [
        {{"name": "matmul/impl:eager/dtype:bf16/n:256/manual_time", "real_time": 0.02, "launch_bound": 1}},
        {{"name": "matmul/impl:graph/dtype:bf16/n:256/manual_time", "real_time": 0.01, "launch_bound": 0}},
        {{"name": "gemv/impl:native/precision:int8/batch:2/n:8192", "real_time": 0.01, "mem_util": 0.75}},
        {{"name": "softmax/impl:native/dtype:fp32/rows:1/d:8", "real_time": 0.01, "mem_util": 0.1}},
        {{"name": "softmax/impl:native/dtype:fp32/rows:9/d:8", "real_time": 0.01, "mem_util": 0.5}},
        {{"name": "softmax/impl:native/dtype:bf16/rows:9/d:8", "mem_util": 0.9, "error_occurred": True}},
    ]
    context = {{"device": "NVIDIA H200", "gpu_datasheet": "h200", "roof_read": "2.4e12"}}
    json.dump({{"context": context, "benchmarks": cases}}, open(flags["benchmark_out"], "w"))
"""

# The GPU tests, of which one was skipped.
TESTS = """#!{python}
import json, os, sys
assert int(os.environ["GTEST_SHARD_INDEX"]) < int(os.environ["GTEST_TOTAL_SHARDS"])
out = next(flag for flag in sys.argv if "gtest_output" in flag).split("json:")[1]
tests = [{{"name": "A", "result": "{first}", "floor_us": "1.5"}}, {{"name": "B", "result": "SKIPPED"}}]
json.dump({{"testsuites": [{{"testsuite": tests}}]}}, open(out, "w"))
"""


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def program_with_gpu(folder: Path) -> Path:
    return script(folder / "roofbench", PROGRAM.format(python=sys.executable))


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "tools/gpu_check", *arguments], capture_output=True, text=True, check=False, timeout=600
    )


def test_without_a_gpu_it_says_so(tmp_path: Path, program: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU here")
    out = tmp_path / "result.json"
    done = check(f"--roofbench={program}", f"--out={out}")
    assert done.returncode == 2
    assert "no GPU to check" in done.stderr
    assert "libcuda.so.1" in done.stderr
    assert not out.exists()


def test_without_a_program_it_says_what_to_do(tmp_path: Path) -> None:
    done = check(f"--prefix={tmp_path}")
    assert done.returncode == 2
    assert "--prefix" in done.stderr


def test_an_unknown_step_is_refused() -> None:
    done = check("--only=quick,slow")
    assert done.returncode == 2
    assert "slow" in done.stderr
    assert "memcheck" in done.stderr


def test_help_names_the_steps() -> None:
    done = check("--help")
    assert done.returncode == 0
    assert all(step in done.stdout.replace("\n", "").replace(" ", "") for step in gpu_check.STEPS)


def test_one_file_with_every_step(tmp_path: Path) -> None:
    script(tmp_path / "gpu_test", TESTS.format(python=sys.executable, first="COMPLETED"))
    out = tmp_path / "deep/result.json"
    done = check(
        f"--roofbench={program_with_gpu(tmp_path)}",
        f"--out={out}",
        "--sanitizer=/bin/true",
        f"--python={script(tmp_path / 'no_torch', '#!/bin/sh' + chr(10) + 'exit 1')}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text())
    assert result["device"] == "NVIDIA H200"
    assert result["failed"] == []
    steps = {step["name"]: step for step in result["steps"]}
    assert list(steps) == list(gpu_check.STEPS)
    assert steps["gpu_tests"]["figures"] == {"floor_us": 1.5, "tests": {"completed": 8, "skipped": 8}}
    assert steps["quick"]["figures"]["launch_bound"] == ["matmul/impl:eager/dtype:bf16/n:256/manual_time"]
    assert list(steps["quick"]["figures"]["graph_speedups"].values()) == [2.0]
    assert steps["memcheck"]["status"] == "passed"
    kernels = {row["kernel"]: row for row in steps["kernels"]["figures"]["kernels"]}
    assert kernels["GemvRows<Int8Weights<uint4, 8>, 2>"]["measured"] == 0.75
    assert kernels["SoftmaxRows<float>"]["measured"] == 0.5, "the best of its cases"
    assert kernels["SoftmaxRows<bf16>"]["measured"] is None, "a case that failed is no measurement"
    assert kernels["ReadStream<true>"]["measured"] == 0.5
    assert kernels["ReadStream<true>"]["measured_by"] == "roof_read"
    assert all(0 < row["expected_not_measured"] < 1 for row in kernels.values())
    assert steps["product_against_torch"]["status"] == "skipped"


def test_a_sanitizer_goes_on_where_a_call_ended(tmp_path: Path) -> None:
    script(tmp_path / "gpu_test", TESTS.format(python=sys.executable, first="COMPLETED"))
    log = tmp_path / "shards"
    sanitizer = script(tmp_path / "sanitizer", f'#!/bin/sh\necho "$GTEST_SHARD_INDEX" >> {log}')
    command = (f"--roofbench={program_with_gpu(tmp_path)}", f"--out={tmp_path / 'result.json'}", "--only=memcheck")
    (tmp_path / "result.parts").mkdir()
    (tmp_path / "result.parts/memcheck-2.passed").touch()
    done = check(*command, f"--sanitizer={sanitizer}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert log.read_text().split() == ["0", "1", "3", "4", "5", "6", "7"]


def test_a_failed_step_does_not_stop_the_others(tmp_path: Path) -> None:
    script(tmp_path / "gpu_test", TESTS.format(python=sys.executable, first="SKIPPED"))
    out = tmp_path / "result.json"
    done = check(
        f"--roofbench={program_with_gpu(tmp_path)}",
        f"--out={out}",
        "--sanitizer=/bin/false",
        "--only=gpu_tests,memcheck,quick",
    )
    assert done.returncode == 1
    result = json.loads(out.read_text())
    assert result["failed"] == ["gpu_tests", "memcheck"]
    assert result["steps"][0]["reason"] == "no test ran", "skipped tests check nothing"
    assert result["steps"][2]["status"] == "passed"


def test_a_call_that_ends_in_time_is_gone_on_with(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    options = (f"--roofbench={program_with_gpu(tmp_path)}", f"--out={out}", "--sanitizer=/bin/true")
    tests = script(tmp_path / "gpu_test", TESTS.format(python=sys.executable, first="COMPLETED"))
    no_torch = f"--python={script(tmp_path / 'no_torch', '#!/bin/sh' + chr(10) + 'exit 1')}"
    done = check(*options, no_torch, f"--limit={gpu_check.GRACE}")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "goes on" in done.stdout
    assert json.loads(out.read_text())["unfinished"] == ["gpu_tests"]

    done = check(*options, no_torch)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text())
    assert [step["name"] for step in result["steps"]] == list(gpu_check.STEPS)
    assert result["unfinished"] == []

    tests.unlink()
    journal = tmp_path / "result.parts/quick.jsonl"
    assert journal.read_text() == "a call\n"
    assert check(*options, no_torch).returncode == 0
    assert journal.read_text() == "a call\n", "what is finished is not run again"
    assert check(*options, no_torch, "--only=quick").returncode == 0
    assert journal.read_text() == "a call\na call\n", "but what is asked for is"


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "precious.json"
    out.write_text("{}")
    done = check(f"--roofbench={program_with_gpu(tmp_path)}", f"--out={out}", "--only=quick")
    assert done.returncode == 2
    assert "--out" in done.stderr
    assert out.read_text() == "{}"


def test_its_file_goes_through_links_that_the_user_laid_alone(tmp_path: Path) -> None:
    victim, target, out = tmp_path / "victim", tmp_path / "target.json", tmp_path / "out.json"
    victim.write_text("precious")
    (tmp_path / "out.partial").symlink_to(victim)
    out.symlink_to(target)
    gpu_check.write(out, [])
    assert victim.read_text() == "precious"
    assert out.is_symlink()
    assert json.loads(target.read_text())["failed"] == []
