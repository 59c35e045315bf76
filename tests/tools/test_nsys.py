# SPDX-License-Identifier: Apache-2.0
"""tools/nsys, with a stand-in for nsys."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROFILE = Path(__file__).resolve().parents[2] / "tools/nsys"

# Records two ranges, and logs its arguments.
FAKE = """#!/bin/bash
printf '%s\\n' "nsys $*" >>"$CALLS"
if [[ $1 == profile ]]; then
  for word in "$@"; do [[ $word == --output=* ]] && prefix=${{word#--output=}}; done
  for number in {numbers}; do : >"$prefix.$number.nsys-rep"; done
  exit {status}
fi
echo "table of ${{@: -1}}"
"""


def profile(
    folder: Path, *arguments: str, numbers: str = "1 2", status: int = 0, fake: bool = True
) -> tuple[int, str, str]:
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    if fake:
        (bin_folder / "nsys").write_text(FAKE.format(numbers=numbers, status=status))
        (bin_folder / "nsys").chmod(0o755)
    environment = {"PATH": f"{bin_folder}:/usr/bin:/bin", "CALLS": str(folder / "calls"), "HOME": os.environ["HOME"]}
    done = subprocess.run(
        [PROFILE, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_measured_steps_are_recorded_and_read(tmp_path: Path) -> None:
    (tmp_path / "steps.3.nsys-rep").touch()  # of an earlier run
    (tmp_path / "steps_b.1.nsys-rep").touch()  # another prefix
    status, out, _ = profile(tmp_path, "--program=/opt/roofbench", "--", "--benchmark_filter=^gelu/")
    assert status == 0
    record, *stats = (tmp_path / "calls").read_text().splitlines()
    for flag in ("--capture-range=nvtx", "--nvtx-capture=measure@*", "--capture-range-end=repeat",
                 "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0", "--output=steps"):  # fmt: skip
        assert f" {flag} " in record
    assert record.endswith(" /opt/roofbench --nvtx --supervise=false --benchmark_filter=^gelu/")
    assert [line.rsplit(" ", 1)[1] for line in stats] == ["steps.1.nsys-rep", "steps.2.nsys-rep"]
    assert "--report=cuda_gpu_kern_sum" in stats[0]
    # Shows the commands and their output.
    assert "nsys profile --trace=cuda,nvtx" in out and "table of steps.2.nsys-rep" in out
    assert (tmp_path / "steps_b.1.nsys-rep").exists()


@pytest.mark.parametrize(("numbers", "status", "expected"), [("1", 3, 3), ("", 0, 1), ("", 130, 130)])
def test_failures_are_reported(numbers: str, status: int, expected: int, tmp_path: Path) -> None:
    found, _, error = profile(tmp_path, numbers=numbers, status=status)
    assert found == expected
    assert ("recorded nothing" in error) == (not numbers)


def test_without_nsys_it_explains_how_to_install_it(tmp_path: Path) -> None:
    status, out, error = profile(tmp_path, "--benchmark_filter=^gelu/\x1b[2J", fake=False)
    assert status == 2
    assert "would run: nsys profile" in out and "--benchmark_filter=^gelu/\\x1b[2J" in out
    assert error.startswith("tools/nsys: nsys is not on PATH") and error.count("\n") == 1
    assert "nsight-systems" in error
