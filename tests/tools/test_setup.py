# SPDX-License-Identifier: Apache-2.0
"""tools/setup on a machine of stand-ins: its installations, questions and explanations."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import Machine


def _without_package(machine: Machine) -> None:
    machine.command("dpkg-query", 'shift 3; for package in "$@"; do echo "$package=installed"; done | grep -v libabsl')
    machine.command("apt-get", "exit 0")
    machine.command("id", "echo 1000")


def _failing_apt(machine: Machine) -> None:
    (machine.bin / "g++").unlink()
    machine.command("apt-get", "exit 100")
    machine.command("sudo", '"$@"')


def _other_system(machine: Machine) -> None:
    (machine.bin / "dpkg-query").unlink()
    (machine.bin / "cmake").unlink()


def _small_disk(machine: Machine) -> None:
    machine.stamp.unlink()
    machine.command("df", "printf 'head\\nfs 1 1 3000000 1 /\\n'")


def _pip(machine: Machine, body: str) -> None:
    """A stand-in for the Python of an incomplete environment, which logs its arguments and does that."""
    machine.stamp.unlink()
    machine.command("df", "printf 'head\\nfs 1 1 90000000 1 /\\n'")
    machine.script(machine.root / ".venv/bin/python", f'printf "%s\\n" "python $*" >>"$CALLS"\n{body}')


def _failing_pip(machine: Machine) -> None:
    _pip(machine, "echo the disk is full; exit 1")


@pytest.mark.parametrize(
    ("breaks", "messages"),
    [
        (_without_package, ["requires root, and sudo is missing", "As root: apt-get install libabsl-dev"]),
        (_failing_apt, ["FAILED: cannot install system packages: g++", "apt-get update && apt-get install g++"]),
        (_other_system, ["FAILED: apt-get is missing and cannot install: cmake"]),
        (_small_disk, ["FAILED: 8 GB of free disk space are required", "has 3 GB"]),
        (_failing_pip, ["the disk is full", "FAILED: cannot install the Python packages"]),
        (
            lambda machine: machine.command("cmake", "echo x.cc is wrong; exit 1"),
            ["x.cc is wrong", "FAILED: cannot build build/release"],
        ),
    ],
)
def test_a_failed_step_is_explained(machine: Machine, breaks: Callable[[Machine], None], messages: list[str]) -> None:
    breaks(machine)
    stamped = machine.stamp.exists()
    done = machine.run("bench")
    assert done.returncode != 0
    assert all(message in done.stderr for message in messages), done.stderr
    assert machine.stamp.exists() == stamped
    if breaks is _without_package:
        assert not any(call.startswith("apt-get") for call in machine.called())


def test_another_libtorch_is_configured(machine: Machine, tmp_path: Path) -> None:
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


def test_a_first_run_writes_the_output_of_its_steps_to_files(machine: Machine) -> None:
    steps = 'for i in {1..400}; do echo "step $i"; done'
    _pip(machine, steps)
    machine.command("cmake", steps)
    (machine.root / "build/release/build.ninja").unlink()
    done = machine.run("bench", "--version")
    assert done.returncode == 0, done.stderr
    assert len(f"{done.stdout}{done.stderr}".splitlines()) < 10
    for log in ("pip", "configure-release", "release"):
        assert (machine.root / f"build/{log}.log").read_text().endswith("step 400\n")


def _installed(machine: Machine, tool: str, **environment: str) -> list[str]:
    """The packages and requirements of each call of pip."""
    machine.calls.unlink(missing_ok=True)
    assert machine.run(tool, *(["--version"] if tool == "bench" else []), **environment).returncode == 0
    calls = [line.partition(" --no-cache-dir ")[2] for line in machine.called() if " pip install " in line]
    return [call.replace(f"-r {machine.root}/tools/requirements-", "-r ") for call in calls]


def test_bench_installs_what_the_program_and_reports_need_and_the_tests_add_theirs(machine: Machine) -> None:
    _pip(machine, "")
    (first,) = _installed(machine, "bench")
    packages = [word.partition("==")[0] for word in first.split() if word != "-r"]
    assert packages == ["report.txt", "tokenizers", "torch"]
    assert _installed(machine, "bench") == []
    (second,) = _installed(machine, "setup")
    assert {"history.txt", "tests.txt", "oracles.txt"} <= set(second.split())
    assert _installed(machine, "setup") == _installed(machine, "bench") == []


@pytest.mark.parametrize(
    "command", [*(("report", verb) for verb in ("accept", "gate", "history", "site")), ("nightly", "--help")]
)
def test_a_history_installs_its_packages_with_its_first_use(machine: Machine, command: tuple[str, ...]) -> None:
    _pip(machine, "")
    (machine.bin / "readlink").symlink_to(shutil.which("readlink") or "")

    def installed(tool: str, *arguments: str) -> list[str]:
        machine.calls.write_text("")
        machine.run(tool, *arguments)
        return [call.rpartition("/tools/")[2] for call in machine.called() if " pip install " in call]

    assert installed("report", "table") == []
    assert installed(*command) == ["requirements-history.txt"]
    (machine.root / ".venv/lib/python3.11/site-packages/sqlalchemy").mkdir(parents=True)
    assert installed(*command) == []


def test_libtorch_for_processors_comes_from_pytorchs_index(machine: Machine) -> None:
    _pip(machine, "")
    torch, others = _installed(machine, "bench", ROOFBENCH_TORCH="cpu")
    (pinned,) = (line for line in (machine.root / "tools/requirements-torch.txt").read_text().split() if "==" in line)
    assert torch == f"{pinned}+cpu --index-url https://download.pytorch.org/whl/cpu"
    assert "torch" not in others
    assert _installed(machine, "bench") == [], "the choice is kept"


def test_a_missing_libtorch_is_refused(machine: Machine) -> None:
    done = machine.run("bench", ROOFBENCH_TORCH="/nowhere/libtorch")
    assert done.returncode != 0
    assert "FAILED: ROOFBENCH_TORCH=/nowhere/libtorch is not a folder" in done.stderr


@pytest.mark.parametrize("tool", ["setup", "test"])
def test_help_is_the_comment_of_the_script(machine: Machine, tool: str) -> None:
    done = machine.run(tool, "--help")
    assert done.returncode == 0
    assert f"tools/{tool}" in done.stdout
    assert "set -euo" not in done.stdout
    assert machine.run(tool, "--nonsense").returncode != 0


def _without_ninja(machine: Machine, user: int = 1000) -> Machine:
    (machine.bin / "ninja").unlink()
    sizes = "'https://a/b.deb' b.deb 30000000 SHA256:x\\n'https://a/c.deb' c.deb 12000000 SHA256:y\\n"
    machine.command("apt-get", f'[[ $* != *--print-uris* ]] || printf "{sizes}"')
    machine.command("id", f"echo {user}")
    machine.command("sudo", '"$@"')
    return machine


INSTALLATION = "apt-get install -y -qq --no-install-recommends ninja-build"


@pytest.mark.parametrize(("answer", "agrees"), [("yes\n", True), ("\n", False)])
def test_it_asks_on_a_terminal_before_it_uses_sudo(machine: Machine, answer: str, agrees: bool) -> None:
    status, shown = _without_ninja(machine).run_on_a_terminal(answer, "setup")
    assert "by sudo apt-get: ninja-build (a download of about 42 MB)" in shown
    assert "Continue? [y/N]" in shown
    assert "LibTorch" not in shown, "it is installed already"
    assert (status == 0) == agrees, shown
    assert (INSTALLATION in machine.called()) == agrees
    if not agrees:
        assert not any(call.startswith("sudo") for call in machine.called())
        assert "By hand, as root: apt-get install ninja-build" in shown


def test_bench_asks_with_the_size_of_libtorch_and_only_on_a_terminal(machine: Machine) -> None:
    done = _without_ninja(machine).run("bench")
    assert done.returncode == 0, done.stderr
    assert "Continue?" not in done.stderr
    assert INSTALLATION in machine.called()
    machine.calls.unlink()
    machine.stamp.unlink()
    status, shown = machine.run_on_a_terminal("n\n", "bench")
    assert status != 0
    assert "LibTorch and Python packages, 5 GB on disk, a download of about 3 GB" in shown
    assert INSTALLATION not in machine.called()


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("apt", ["exit 0", "exit 100"])
def test_an_optional_package_is_installed_where_it_exists_and_never_missed(
    machine: Machine, listed: bool, apt: str
) -> None:
    machine.command("dpkg-query", 'shift 3; for package in "$@"; do echo "$package=installed"; done | grep -v gloo')
    machine.command("apt-cache", f"exit {0 if listed else 100}")
    machine.command("apt-get", apt)
    machine.command("id", "echo 0")
    assert machine.run("bench").returncode == 0
    install = "apt-get install -y -qq --no-install-recommends libgloo-dev"
    assert (install in machine.called()) == listed


@pytest.mark.parametrize(
    ("arguments", "environment", "user"),
    [(["--yes", "release"], {}, 1000), ([], {"CI": "true"}, 1000), ([], {}, 0)],
)
def test_yes_ci_and_root_skip_the_question(
    machine: Machine, arguments: list[str], environment: dict[str, str], user: int
) -> None:
    status, shown = _without_ninja(machine, user).run_on_a_terminal("", "setup", *arguments, **environment)
    assert status == 0, shown
    assert "Continue?" not in shown
    assert INSTALLATION in machine.called()
    assert any(call.startswith("sudo") for call in machine.called()) == (user != 0)
