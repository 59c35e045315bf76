# SPDX-License-Identifier: Apache-2.0
"""tools/nsys: runs roofbench under `nsys profile`, and prints the recording with `nsys stats`.

It records the range `measure` of each case, without building, checking and warm-up: one report per case,
PREFIX.1.nsys-rep, PREFIX.2.nsys-rep, …
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from roofreport.errors import UnusableInputError
from roofreport.exit_status import ended, status_of
from roofreport.terminal import say, show

PROGRAM = Path(__file__).resolve().parents[1] / "build/release/bin/roofbench"
# Host ranges, GPU kernels, and the kernels by range.
REPORTS = ("nvtx_sum", "cuda_gpu_kern_sum", "nvtx_gpu_proj_sum")
MISSING = (
    "nsys is not on PATH. Nsight Systems comes with the CUDA toolkit (package nsight-systems of NVIDIA's repositories "
    "for Debian and Ubuntu), or from NVIDIA's page of Nsight Systems. roofbench --profile=FOLDER records the same "
    "ranges without it"
)

EPILOG = """
Other flags are passed to roofbench, with --nvtx, and --supervise=false because nsys does not follow its children.

example:
  tools/nsys --output=steps -- --benchmark_filter=^matmul/impl:eager/dtype:bf16

exit status: that of roofbench; 2 without nsys, 1 if nothing was recorded or the reports cannot be read
"""


def profile_command(nsys: str, output: str, program: str, flags: Sequence[str]) -> list[str]:
    return [
        nsys, "profile",
        "--trace=cuda,nvtx,cublas,cudnn",
        "--sample=none", "--cpuctxsw=none",
        # One report for each range `measure`, of any domain.
        "--capture-range=nvtx", "--nvtx-capture=measure@*", "--capture-range-end=repeat",
        "--force-overwrite=true",
        f"--output={output}",
        # By default nsys only matches registered names; ours are plain text.
        "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
        program, "--nvtx", "--supervise=false", *flags,
    ]  # fmt: skip


def stats_command(nsys: str, report: Path) -> list[str]:
    return [nsys, "stats", "--force-export=true", *(f"--report={name}" for name in REPORTS), "--format=table",
            str(report)]  # fmt: skip


def reports_of(output: str) -> list[Path]:
    """PREFIX.nsys-rep of one range, or numbered ones."""
    prefix = Path(output)
    found = list(prefix.parent.glob("*.nsys-rep"))
    mine = [path for path in found if path.name[: len(prefix.name) + 1] == f"{prefix.name}."]
    return sorted(mine, key=lambda path: (len(path.name), path.name))


def run(command: Sequence[str]) -> int:
    show(shlex.join(command))
    sys.stdout.flush()  # before the command's output
    return status_of(command)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools/nsys",
        description="Profiles the measured steps of cases with Nsight Systems.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--output", default="steps", metavar="PREFIX", help="of the reports (default: steps)")
    parser.add_argument("--program", default=str(PROGRAM), metavar="FILE", help="a program that links roofbench")
    args, flags = parser.parse_known_args()
    flags = flags[1:] if flags[:1] == ["--"] else flags
    nsys = shutil.which("nsys")
    if nsys is None:
        show(f"would run: {shlex.join(profile_command('nsys', args.output, args.program, flags))}")
        raise UnusableInputError(MISSING)
    for report in reports_of(args.output):
        report.unlink()  # of an earlier run
    status = run(profile_command(nsys, args.output, args.program, flags))
    reports = reports_of(args.output)
    if not reports:
        say("tools/nsys: nsys recorded nothing: no case was measured, or see its messages above")
        return status or 1
    read = [run(stats_command(nsys, report)) for report in reports]
    return status or int(any(read))


if __name__ == "__main__":
    sys.exit(ended("tools/nsys", main))
