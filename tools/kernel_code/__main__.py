# SPDX-License-Identifier: Apache-2.0
"""Checks the machine code of our CUDA kernels in the built library, and writes the table of docs/gpus.md: registers of
a thread, bytes in flight on a multiprocessor, and the expected share of the memory roof for each kernel.
tools/gpu_check reads the shares from gpu_expected.json. Needs no GPU, but cuobjdump and nvdisasm of the CUDA toolkit or
of the package triton.

Exit status: 0 success, 1 a kernel breaks a rule or the page is stale (--check), 2 there is nothing to read.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from generate_docs import DescriptionError, replaced
from roofreport.text import printable

from kernel_code import table
from kernel_code.rules import violations
from kernel_code.sass import DumpError, read_kernels

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "release" / "lib" / "libroofbench_cuda.so"
DATA = Path(__file__).with_name("gpu_expected.json")
SECTION = "gpu-kernels"


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="tools/kernel_table", description=__doc__, formatter_class=raw)
    parser.add_argument("--check", action="store_true", help="write nothing, report stale files")
    parser.add_argument("--library", type=Path, default=LIBRARY, help="the built CUDA part")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "gpus.md", help="contains the table")
    parser.add_argument("--data", type=Path, default=DATA, help="its shares as data")
    arguments = parser.parse_args()
    try:
        old = arguments.page.read_text(encoding="utf-8")
        if not arguments.library.exists():
            raise DumpError(f"{arguments.library} is missing: tools/setup builds it where a CUDA toolkit is installed")
        kernels = read_kernels(arguments.library)
        new = replaced(old, SECTION, table.lines(kernels))
        data = table.as_json(table.expectations(kernels))
        known = arguments.data.read_text(encoding="utf-8") if arguments.data.exists() else ""
        written = [(arguments.page, new)] * (new != old) + [(arguments.data, data)] * (data != known)
        for path, text in written if not arguments.check else []:
            path.write_text(text, encoding="utf-8")
    except (DumpError, DescriptionError, OSError) as error:
        print(printable(f"tools/kernel_table: {error}"), file=sys.stderr)
        return 2
    found = [f"{kernel.name} ({kernel.arch}): {line}" for kernel in kernels for line in violations(kernel)]
    for path, _ in written:
        if arguments.check:
            found.append(f"{path.name}: stale; tools/kernel_table updates it")
        else:
            print(printable(f"{path.name}: written"))
    for line in found:
        print(printable(line))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
