# SPDX-License-Identifier: Apache-2.0
"""Third-party projects that add a family: tests/consumer, which docs/your_kernel.md shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import documents
import pytest
from built_program import ROOT
from installed import bare, libtorch

CONSUMER = ROOT / "tests" / "consumer"
TINY = ("--benchmark_min_time=5x", "--warmup_iters=1", "--axis=n=1024")


def run(*command: str | Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command], capture_output=True, text=True, check=False, timeout=1800, env=environment)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy that the test may change, outside of our source tree."""
    return Path(shutil.copytree(CONSUMER, tmp_path / "project"))


def configure(project: Path, prefix: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run(
        "cmake",
        f"-DCMAKE_PREFIX_PATH={prefix};{libtorch()}",
        "-DCMAKE_BUILD_TYPE=Release",
        *("-G", "Ninja", "-S", project, "-B", project / "build"),
        environment=environment,
    )


def build(folder: Path, environment: dict[str, str]) -> Path:
    done = run("cmake", "--build", folder, "--target", "own_kernel", environment=environment)
    assert done.returncode == 0, done.stdout
    return folder / "own_kernel"


def reports_know_the_family(program: Path, folder: Path, environment: dict[str, str]) -> None:
    """tools/report tables, compares and fits families that it does not know: the result describes itself."""
    sizes = "--axis=n=1024,4096,16384"
    for result in ("before.jsonl", "after.jsonl"):
        record = folder / result
        flags = ("--benchmark_min_time=20x", "--warmup_iters=1", sizes, f"--journal={record}")
        done = run(program, *flags, environment=environment)
        assert done.returncode == 0, done.stderr
        header, *lines = map(json.loads, record.read_text().splitlines())
        for line in lines:  # whatever else runs here
            line.pop("noise", None)
            line["counters"] |= dict.fromkeys(("noisy", "disturbed", "throttled"), 0.0) | {"ci": 0.01}
        record.write_text("".join(f"{json.dumps(line)}\n" for line in (header, *lines)))

    def report(verb: str, *files: str) -> str:
        done = run(ROOT / "tools" / "report", verb, *(folder / file for file in files), environment=dict(os.environ))
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    assert "scale_add" in report("table", "before.jsonl")
    assert "impl:ours/n:4096" in report("compare", "before.jsonl", "after.jsonl")
    assert "expected n^1" in report("scaling", "before.jsonl")
    summary = report("summary", "before.jsonl")
    assert re.search(r"scale_add/n:16384 +(eager|ours) ", summary), summary


@pytest.mark.nightly
def test_a_users_family_with_the_installed_tree(prefix: Path, project: Path, tmp_path: Path) -> None:
    environment = bare(tmp_path)
    configured = configure(project, prefix, environment)
    assert configured.returncode == 0, configured.stderr
    done = run(build(project / "build", environment), *TINY, environment=environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^scale_add +time .*\n(?s:.*)^ +impl:ours/n:1024 +\d", done.stdout, re.MULTILINE), done.stdout
    # No family of ours came along.
    listed = run(project / "build" / "own_kernel", "--benchmark_list_tests", environment=environment).stdout
    assert {line.split("/")[0] for line in listed.splitlines()} == {"scale_add"}

    reports_know_the_family(project / "build" / "own_kernel", tmp_path, environment)

    source = project / "own_kernel.cc"
    right = source.read_text()
    wrong = right.replace("a * x[i] + y[i]", "a * x[i] - y[i]")
    assert wrong != right
    source.write_text(wrong)
    done = run(build(project / "build", environment), *TINY, environment=environment)
    assert done.returncode == 1
    assert re.search(r"^ +impl:ours/n:1024 .*(wrong|differ)", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("package", ["LibTorch", "benchmark", "absl", "nlohmann_json"])
def test_another_release_of_a_dependency_is_refused(prefix: Path, project: Path, tmp_path: Path, package: str) -> None:
    other = Path(shutil.copytree(prefix, tmp_path / "other"))
    config = other / "lib" / "cmake" / "roofbench" / "roofbenchConfig.cmake"
    planted, count = re.subn(rf"(find_dependency\({package}) \S+ EXACT", r"\1 77.8.9 EXACT", config.read_text())
    assert count == 1
    config.write_text(planted)
    done = configure(project, other, bare(tmp_path))
    assert done.returncode != 0
    assert package in done.stderr
    assert "77.8.9" in done.stderr


@pytest.mark.nightly
def test_a_users_family_with_the_sources(project: Path) -> None:
    # The layers are compiled: what makes that quick is on, it need not run fast, and test_cuda_build has the CUDA part.
    # Always in one folder, whose name is in what the compiler cache goes by.
    folder = ROOT / "build" / "consumer"
    shutil.rmtree(folder, ignore_errors=True)
    environment = dict(os.environ, CMAKE_PREFIX_PATH=str(libtorch()))
    configured = run(
        "cmake",
        f"-DROOFBENCH={ROOT}",
        *("-DROOFBENCH_PRECOMPILE=ON", "-DROOFBENCH_CUDA=OFF", "-DCMAKE_BUILD_TYPE=Debug"),
        *("-G", "Ninja", "-S", project / "subdirectory", "-B", folder),
        environment=environment,
    )
    assert configured.returncode == 0, configured.stderr
    own = dict(re.findall(r"^-- own: (\w+)=(.*)$", configured.stdout, re.MULTILINE))
    assert own["CMAKE_CXX_STANDARD"] == ""
    assert own["CMAKE_RUNTIME_OUTPUT_DIRECTORY"] == ""
    assert own["CMAKE_BUILD_TYPE"] == "Debug"
    assert "-fno-omit-frame-pointer" not in own["CMAKE_CXX_FLAGS_RELEASE"]
    # Our targets are built, tested or installed only on request; and our warnings do not spread.
    targets = run("cmake", "--build", folder, "--target", "help", environment=environment).stdout
    assert "roofbench_gbench" in targets
    assert "run_test" not in targets
    assert "roofbench" not in (folder / "cmake_install.cmake").read_text().replace(str(ROOT), "")
    commands = json.loads((folder / "compile_commands.json").read_text())
    (command,) = (entry["command"] for entry in commands if entry["file"].endswith("own_kernel.cc"))
    assert "-W" not in command

    done = run(build(folder, environment), *TINY, environment=environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^scale_add +time .*\n(?s:.*)^ +impl:ours/n:1024 +\d", done.stdout, re.MULTILINE), done.stdout
    assert not (folder / "roofbench" / "bin" / "roofbench").exists()


def test_the_docs_show_these_files() -> None:
    page = ROOT / "docs" / "your_kernel.md"
    assert documents.block(page, "cpp") == (CONSUMER / "own_kernel.cc").read_text()
    assert documents.block(page, "cmake") == (CONSUMER / "CMakeLists.txt").read_text()


FAMILY_PAGE = ROOT / "docs" / "your_family.md"
MAIN = "\nint main(int argc, char** argv) { return roofbench::Main(argc, argv); }\n"


def test_a_family_takes_at_most_25_lines_below_its_includes() -> None:
    lines = documents.block(FAMILY_PAGE, "cpp").splitlines()
    below = lines[lines.index("namespace roofbench {") :]
    assert len(below) <= 25
    assert not any(line.startswith("#include") for line in below)


@pytest.mark.nightly
def test_the_family_of_the_docs_is_built_and_checked(prefix: Path, project: Path, tmp_path: Path) -> None:
    environment = bare(tmp_path)
    flags = ("--benchmark_filter=^hard_swish/", *TINY[:2], "--axis=elements=1024")
    right = '#include "lib/cli/main.h"\n' + documents.block(FAMILY_PAGE, "cpp") + MAIN
    wrong = right.replace("x[i] + 3, 0.0F", "x[i] + 2, 0.0F")
    assert wrong != right
    configured = None
    for source, status, verdict in ((right, 0, r"\d"), (wrong, 1, ".*(wrong|differ)")):
        (project / "own_kernel.cc").write_text(source)
        configured = configured or configure(project, prefix, environment)
        assert configured.returncode == 0, configured.stderr
        done = run(build(project / "build", environment), *flags, environment=environment)
        assert done.returncode == status, done.stdout + done.stderr
        assert re.search(r"^ +impl:eager/elements:1024 +\d", done.stdout, re.MULTILINE), done.stdout
        assert re.search(rf"^ +impl:native/elements:1024 +{verdict}", done.stdout, re.MULTILINE), done.stdout
