"""tools/setup and tools/bench against a machine of stand-ins: what they run, pass on, write and explain."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"

REAL_COMMANDS = ("awk", "bash", "cat", "cut", "date", "dirname", "env", "grep", "head", "id", "mkdir", "rm", "sed")
MORE_COMMANDS = ("sha256sum", "sleep", "uname")


class Machine:
    """A project folder with nothing missing, and a PATH that holds only what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.bin = folder / "bin"
        self.calls = folder / "calls"
        self.bin.mkdir()
        shutil.copytree(TOOLS, self.root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        for name in REAL_COMMANDS + MORE_COMMANDS:
            found = shutil.which(name)
            assert found, name
            (self.bin / name).symlink_to(found)
        for name in ("cmake", "ninja", "g++", "git", "ccache"):
            self.command(name, "exit 0")
        self.command("dpkg-query", 'shift 3; for package in "$@"; do echo "$package=installed"; done')

        (self.root / ".venv/bin").mkdir(parents=True)
        (self.root / ".venv/bin/python").symlink_to(sys.executable)
        requirements = [self.root / "tools" / name for name in ("requirements.txt", "requirements-torch.txt")]
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in requirements)).hexdigest()
        self.stamp = self.root / ".venv/.roofbench"
        self.stamp.write_text(f"{digest} pypi\n")

        (self.root / "build/release/bin").mkdir(parents=True)
        (self.root / "build/release/build.ninja").touch()
        (self.root / "build/release/torch_origin").write_text("pypi\n")
        self.roofbench('printf "%s\\n" "$@" >"$CALLS.flags"')

    def _script(self, path: Path, body: str) -> None:
        path.unlink(missing_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)

    def command(self, name: str, body: str) -> None:
        self._script(self.bin / name, f'printf "%s\\n" "{name} $*" >>"$CALLS"\n{body}')

    def roofbench(self, body: str) -> None:
        self._script(self.root / "build/release/bin/roofbench", body)

    def environment(self) -> dict[str, str]:
        return {"PATH": str(self.bin), "CALLS": str(self.calls)}

    def run(self, tool: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.root / "tools" / tool), *arguments],
            cwd=self.root,
            env=self.environment() | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def flags(self) -> list[str]:
        return Path(f"{self.calls}.flags").read_text().split()

    def called(self, *, ignoring: str = "dpkg-query") -> list[str]:
        return [line for line in self.calls.read_text().splitlines() if not line.startswith(ignoring)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_bench_starts_at_once_when_nothing_is_missing(machine: Machine) -> None:
    done = machine.run("bench")
    assert done.returncode == 0, done.stderr
    assert machine.called() == ["cmake --build --preset release --target roofbench"]


def test_bench_adds_the_quick_suite_and_an_output(machine: Machine) -> None:
    machine.roofbench(
        'printf "%s\\n" "$@" >"$CALLS.flags"; echo {} >"$(sed -n "s/--benchmark_out=//p" "$CALLS.flags")"'
    )
    done = machine.run("bench", "--seed=3")
    assert machine.flags()[:2] == ["--seed=3", "--suite=quick"]
    (written,) = (machine.root / "results/local").iterdir()
    journal = written.with_suffix(".journal.jsonl")
    assert machine.flags()[3:] == ["--benchmark_out_format=json", f"--journal={journal}", "--case_timeout=900"]
    assert machine.flags()[2] == f"--benchmark_out={written}"
    assert done.stdout.splitlines()[-2:] == ["Written:", f"  results/local/{written.name}"]


@pytest.mark.parametrize("flag", ["--suite=full", "--benchmark_filter=matmul"])
def test_bench_leaves_the_choice_of_cases_to_the_flags(machine: Machine, flag: str) -> None:
    assert machine.run("bench", flag).returncode == 0
    assert "--suite=quick" not in machine.flags()


def test_bench_names_every_file_of_a_chosen_output(machine: Machine, tmp_path: Path) -> None:
    out = tmp_path / "chosen.json"
    machine.roofbench(f"echo {{}} >{out}; echo {{}} >{tmp_path}/chosen.journal.jsonl")
    done = machine.run("bench", f"--benchmark_out={out}", "--suite=quick")
    assert done.stdout.split() == ["Written:", f"{tmp_path}/chosen.journal.jsonl", str(out)]
    assert not (machine.root / "results").exists()


@pytest.mark.parametrize("flag", ["--help", "--list_axes", "--benchmark_list_tests=true"])
def test_bench_answers_a_question_without_writing(machine: Machine, flag: str) -> None:
    done = machine.run("bench", flag)
    assert machine.flags() == [flag]
    assert "ritten" not in done.stdout


def test_bench_passes_the_exit_code_through(machine: Machine) -> None:
    machine.roofbench("exit 7")
    done = machine.run("bench")
    assert done.returncode == 7
    assert done.stdout.splitlines()[-1] == "Nothing was written."


@pytest.mark.parametrize("receivers", [["group"], ["script"], ["script", "group"]])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_roofbench_gets_a_signal_once_and_ends_in_order(
    machine: Machine, tmp_path: Path, number: signal.Signals, receivers: list[str]
) -> None:
    ready = tmp_path / "ready"
    machine.roofbench(
        "code=0; trap 'trap - INT; code=130' INT; trap 'trap - TERM; code=143' TERM\n"
        f"echo >{ready}; while ((code == 0)); do sleep 0.02; done; sleep 0.2\n"
        f"echo {{}} >{tmp_path}/chosen.json; exit $code"
    )
    bench = subprocess.Popen(
        [str(machine.root / "tools/bench"), f"--benchmark_out={tmp_path}/chosen.json"],
        env=machine.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not ready.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for receiver in receivers:
        (os.killpg if receiver == "group" else os.kill)(bench.pid, number)
        time.sleep(0.1)  # two signals at the same moment would arrive as one
    output, _ = bench.communicate(timeout=30)
    assert bench.returncode == 128 + number
    assert f"{tmp_path}/chosen.json" in output


def test_an_interrupted_run_goes_on(machine: Machine) -> None:
    journal = "$(sed -n 's/--journal=//p' \"$CALLS.flags\")"
    machine.roofbench(f'printf "%s\\n" "$@" >"$CALLS.flags"; echo "a line" >>"{journal}"; exit 137')
    done = machine.run("bench", "--seed=3", "--benchmark_context=note=two words")
    assert done.returncode == 137
    assert "tools/bench --resume goes on after the last one" in done.stderr
    before = machine.flags()
    other = machine.run("bench", "--seed=4", "--benchmark_out=elsewhere.json")
    assert "tools/bench --resume --benchmark_out=elsewhere.json goes on" in other.stderr

    machine.roofbench('printf "%s\\n" "$@" >"$CALLS.flags"')
    done = machine.run("bench", "--resume")
    assert done.returncode == 0, done.stderr
    assert "Going on with the run of" in done.stderr
    assert machine.flags() == [*before, "--resume"]
    assert not list((machine.root / "results/local").glob("*.unfinished"))
    again = machine.run("bench", "--resume")
    assert again.returncode == 2
    assert "there is no unfinished run" in again.stderr

    done = machine.run("bench", "--resume", "--benchmark_out=elsewhere.json", "--case_timeout=5")
    assert done.returncode == 0, done.stderr
    assert machine.flags()[0] == "--seed=4"
    assert machine.flags()[-2:] == ["--case_timeout=5", "--resume"]


def test_a_new_run_names_an_unfinished_one(machine: Machine) -> None:
    machine.roofbench("exit 143")
    assert machine.run("bench").returncode == 143
    assert "did not come to its end: tools/bench --resume" in machine.run("bench").stderr


def test_what_was_refused_leaves_nothing_to_go_on_with(machine: Machine) -> None:
    machine.roofbench("exit 2")
    assert machine.run("bench").returncode == 2
    assert machine.run("bench", "--resume").returncode == 2
    assert not list((machine.root / "results/local").iterdir())


def test_a_missing_library_is_explained(machine: Machine) -> None:
    machine.roofbench("echo 'roofbench: error while loading shared libraries: libtorch_cpu.so' >&2; exit 127")
    done = machine.run("bench")
    assert done.returncode == 127
    assert "libtorch_cpu.so" in done.stderr
    assert "ROOFBENCH_TORCH=<its folder> tools/bench" in done.stderr


def test_a_results_folder_that_cannot_be_made_is_explained(machine: Machine) -> None:
    (machine.root / "results").write_text("a file")
    done = machine.run("bench")
    assert done.returncode == 2
    assert "the folder of the results cannot be made" in done.stderr
    assert "--benchmark_out=FILE" in done.stderr


def test_a_device_gets_no_files_beside_it(machine: Machine) -> None:
    assert machine.run("bench", "--benchmark_out=/dev/null").returncode == 0
    assert machine.flags() == ["--benchmark_out=/dev/null", "--suite=quick"]
    assert not list(Path("/dev").glob("null*.unfinished"))


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
