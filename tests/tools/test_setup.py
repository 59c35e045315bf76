# SPDX-License-Identifier: Apache-2.0
"""tools/setup against a machine of stand-ins: what it installs, asks and explains."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from machine import Machine


def test_a_missing_package_without_root_is_named(machine: Machine) -> None:
    machine.command("dpkg-query", 'shift 3; for package in "$@"; do echo "$package=installed"; done | grep -v libabsl')
    machine.command("apt-get", "exit 0")
    machine.command("id", "echo 1000")
    done = machine.run("bench")
    assert done.returncode != 0
    assert "As root: apt-get install libabsl-dev" in done.stderr
    assert not any(call.startswith("apt-get") for call in machine.called())


def test_missing_packages_are_installed_by_sudo(machine: Machine) -> None:
    (machine.bin / "ninja").unlink()
    machine.command("apt-get", "exit 0")
    machine.command("id", "echo 1000")
    machine.command("sudo", '"$@"')
    done = machine.run("bench")
    assert done.returncode == 0, done.stderr
    assert "apt-get install -y -qq --no-install-recommends ninja-build" in machine.called()


def test_a_failed_installation_is_explained(machine: Machine) -> None:
    (machine.bin / "g++").unlink()
    machine.command("apt-get", "exit 100")
    machine.command("sudo", '"$@"')
    done = machine.run("bench")
    assert done.returncode != 0
    assert "FAILED: system packages could not be installed: g++" in done.stderr
    assert "By hand, as root: apt-get update && apt-get install g++" in done.stderr


def test_another_system_is_told_what_is_missing(machine: Machine) -> None:
    (machine.bin / "dpkg-query").unlink()
    (machine.bin / "cmake").unlink()
    done = machine.run("bench")
    assert done.returncode != 0
    assert "FAILED: apt-get is missing, so these cannot be installed here: cmake" in done.stderr


def test_a_small_disk_is_told_before_the_download(machine: Machine) -> None:
    machine.stamp.unlink()
    machine.command("df", "printf 'head\\nfs 1 1 3000000 1 /\\n'")
    done = machine.run("bench")
    assert done.returncode != 0
    assert "8 GB of free disk are needed" in done.stderr
    assert "has 3 GB" in done.stderr


def test_a_failed_download_is_explained(machine: Machine) -> None:
    machine.stamp.unlink()
    machine.command("df", "printf 'head\\nfs 1 1 90000000 1 /\\n'")
    python = machine.root / ".venv/bin/python"
    python.unlink()
    python.symlink_to(shutil.which("false") or "/bin/false")
    done = machine.run("bench")
    assert done.returncode != 0
    assert "FAILED: the Python packages could not be installed" in done.stderr
    assert not machine.stamp.exists()


def test_a_failed_build_is_explained(machine: Machine) -> None:
    machine.command("cmake", "exit 1")
    done = machine.run("bench")
    assert done.returncode != 0
    assert "FAILED: build/release was not built" in done.stderr


def test_another_libtorch_is_configured_anew(machine: Machine, tmp_path: Path) -> None:
    libtorch = tmp_path / "libtorch"
    libtorch.mkdir()
    digest = machine.stamp.read_text().split()[0]
    machine.stamp.write_text(f"{digest} {libtorch}\n")
    machine.command("cmake", 'echo "prefix $CMAKE_PREFIX_PATH" >>"$CALLS"')
    assert machine.run("bench", ROOFBENCH_TORCH=str(libtorch)).returncode == 0
    assert machine.called()[:2] == ["cmake --preset release", f"prefix {libtorch}"]
    machine.calls.unlink()
    assert machine.run("bench").returncode == 0
    assert machine.called()[0] == "cmake --build --preset release --target roofbench"


def test_a_libtorch_that_is_not_there_is_refused(machine: Machine) -> None:
    done = machine.run("bench", ROOFBENCH_TORCH="/nowhere/libtorch")
    assert done.returncode != 0
    assert "FAILED: ROOFBENCH_TORCH=/nowhere/libtorch is not a folder" in done.stderr


@pytest.mark.parametrize("tool", ["setup", "test"])
def test_help_is_the_comment_of_the_script(machine: Machine, tool: str) -> None:
    done = machine.run(tool, "--help")
    assert done.returncode == 0
    assert f"tools/{tool}" in done.stdout
    assert machine.run(tool, "--nonsense").returncode != 0


def _without_ninja(machine: Machine, user: int = 1000) -> Machine:
    (machine.bin / "ninja").unlink()
    sizes = "'https://a/b.deb' b.deb 30000000 SHA256:x\\n'https://a/c.deb' c.deb 12000000 SHA256:y\\n"
    machine.command("apt-get", f'[[ $* != *--print-uris* ]] || printf "{sizes}"')
    machine.command("id", f"echo {user}")
    machine.command("sudo", '"$@"')
    return machine


def _installed(machine: Machine) -> bool:
    return any(call.startswith("sudo ") and "ninja-build" in call for call in machine.called())


@pytest.mark.parametrize(("answer", "goes_on"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False)])
def test_it_asks_on_a_terminal_before_it_uses_sudo(machine: Machine, answer: str, goes_on: bool) -> None:
    _without_ninja(machine)
    status, shown = machine.run_on_a_terminal(answer, "setup")
    assert "by sudo apt-get: ninja-build (a download of about 42 MB)" in shown
    assert "Go on? [y/N]" in shown
    assert "LibTorch" not in shown, "it is there already"
    assert (status == 0) == goes_on, shown
    assert _installed(machine) == goes_on
    if not goes_on:
        assert not any(call.startswith("sudo") for call in machine.called())
        assert "By hand, as root: apt-get install ninja-build" in shown


def test_the_question_says_how_large_libtorch_is(machine: Machine) -> None:
    _without_ninja(machine).stamp.unlink()
    _, shown = machine.run_on_a_terminal("n\n", "setup")
    assert "LibTorch and Python packages, 4.7 GB on disk, a download of about 3 GB" in shown


def test_bench_asks_as_well(machine: Machine) -> None:
    status, shown = _without_ninja(machine).run_on_a_terminal("n\n", "bench")
    assert status != 0
    assert "Go on?" in shown
    assert not _installed(machine)


@pytest.mark.parametrize("arguments", [["--yes"], ["--yes", "release"]])
def test_yes_skips_the_question(machine: Machine, arguments: list[str]) -> None:
    status, shown = _without_ninja(machine).run_on_a_terminal("", "setup", *arguments)
    assert status == 0, shown
    assert "Go on?" not in shown
    assert _installed(machine)


def test_continuous_integration_is_not_asked(machine: Machine) -> None:
    status, shown = _without_ninja(machine).run_on_a_terminal("", "setup", CI="true")
    assert status == 0, shown
    assert _installed(machine)


def test_without_a_terminal_it_goes_on(machine: Machine) -> None:
    done = _without_ninja(machine).run("setup")
    assert done.returncode == 0, done.stderr
    assert "Go on?" not in done.stderr
    assert _installed(machine)


def test_root_is_not_asked(machine: Machine) -> None:
    status, shown = _without_ninja(machine, user=0).run_on_a_terminal("", "setup")
    assert status == 0, shown
    assert "Go on?" not in shown
    assert any(call.startswith("apt-get install -y") for call in machine.called())
    assert not any(call.startswith("sudo") for call in machine.called())


def test_the_tests_say_how_to_run_one_alone(machine: Machine) -> None:
    shown = machine.run("test", "--help").stdout
    for part in ("--target timing_test", "--gtest_filter=", "pytest tests/roofreport/io/test_load.py -k"):
        assert part in shown
    assert "set -euo" not in shown
