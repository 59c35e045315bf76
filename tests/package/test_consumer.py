"""Projects of others, who bring a family of their own: tests/consumer, which the README shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from built_program import ROOT
from installed import bare, libtorch

CONSUMER = ROOT / "tests" / "consumer"
TINY = ("--benchmark_min_time=5x", "--warmup_iters=1", "--axis=n=1024")


def run(*command: str | Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command], capture_output=True, text=True, check=False, timeout=600, env=environment)


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


@pytest.mark.slow
def test_a_family_of_ones_own_against_the_installed_tree(prefix: Path, project: Path, tmp_path: Path) -> None:
    environment = bare(tmp_path)
    configured = configure(project, prefix, environment)
    assert configured.returncode == 0, configured.stderr
    done = run(build(project / "build", environment), *TINY, environment=environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^scale_add +time .*\n +n:1024 +\d", done.stdout, re.MULTILINE), done.stdout
    # No family of ours came along.
    listed = run(project / "build" / "own_kernel", "--benchmark_list_tests", environment=environment).stdout
    assert {line.split("/")[0] for line in listed.splitlines()} == {"scale_add"}

    source = project / "own_kernel.cc"
    right = source.read_text()
    wrong = right.replace("a * x[i] + y[i]", "a * x[i] - y[i]")
    assert wrong != right
    source.write_text(wrong)
    done = run(build(project / "build", environment), *TINY, environment=environment)
    assert done.returncode == 1
    assert re.search(r"^ +n:1024 .*wrong|^ +n:1024 .*differ", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("package", ["LibTorch", "benchmark", "absl", "nlohmann_json"])
def test_another_release_than_it_was_built_with_is_refused(
    prefix: Path, project: Path, tmp_path: Path, package: str
) -> None:
    other = Path(shutil.copytree(prefix, tmp_path / "other"))
    assert configure(project, other, bare(tmp_path)).returncode == 0
    config = other / "lib" / "cmake" / "roofbench" / "roofbenchConfig.cmake"
    planted, count = re.subn(rf"(find_dependency\({package}) \S+ EXACT", r"\1 77.8.9 EXACT", config.read_text())
    assert count == 1
    config.write_text(planted)
    shutil.rmtree(project / "build")
    done = configure(project, other, bare(tmp_path))
    assert done.returncode != 0
    assert package in done.stderr
    assert "77.8.9" in done.stderr


@pytest.mark.slow
def test_a_family_of_ones_own_beside_the_sources(project: Path, tmp_path: Path) -> None:
    # The layers are compiled: what makes that quick is on, it need not run fast, and test_cuda_build has the CUDA part.
    folder = tmp_path / "build"
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
    # Nothing of ours is built, tested or installed unless it is asked for; and our warnings stay with us.
    targets = run("cmake", "--build", folder, "--target", "help", environment=environment).stdout
    assert "roofbench_harness" in targets
    assert "harness_test" not in targets
    assert "roofbench" not in (folder / "cmake_install.cmake").read_text().replace(str(ROOT), "")
    commands = json.loads((folder / "compile_commands.json").read_text())
    (command,) = (entry["command"] for entry in commands if entry["file"].endswith("own_kernel.cc"))
    assert "-W" not in command

    done = run(build(folder, environment), *TINY, environment=environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^scale_add +time .*\n +n:1024 +\d", done.stdout, re.MULTILINE), done.stdout
    assert not (folder / "roofbench" / "bin" / "roofbench").exists()


def test_the_readme_shows_these_files() -> None:
    section = (ROOT / "README.md").read_text().split("\n## Bring your own kernel\n")[1].split("\n## ")[0]
    (source,) = re.findall(r"^```cpp\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (project,) = re.findall(r"^```cmake\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert source == (CONSUMER / "own_kernel.cc").read_text()
    assert project == (CONSUMER / "CMakeLists.txt").read_text()
