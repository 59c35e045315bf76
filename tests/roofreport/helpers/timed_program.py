# SPDX-License-Identifier: Apache-2.0
"""A program that answers like roofbench and measures one thing: how long a hash of --work million bytes takes."""

from __future__ import annotations

import hashlib
import re
import sys
import time
from pathlib import Path
from statistics import median

import builders
from scratch_repository import CASE


def main() -> int:
    flags = dict(argument.removeprefix("--").partition("=")[::2] for argument in sys.argv[1:])
    if "describe" in flags:
        return 2  # as a program that is too old to
    chosen = re.search(flags.get("benchmark_filter", ""), f"{CASE}/manual_time")
    if "benchmark_list_tests" in flags:
        print(f"{CASE}/manual_time" if chosen else "")
        return 0
    data = bytes(round(float(flags["work"]) * 1e6))
    samples: list[float] = []
    end = time.perf_counter() + float(flags.get("max_time", 0.2))
    hashlib.sha256(data).digest()
    while time.perf_counter() < end or len(samples) < 3:
        start = time.perf_counter()
        hashlib.sha256(data).digest()
        samples.append(1e3 * (time.perf_counter() - start))
    builders.write_json(Path(flags["benchmark_out"]), [builders.row(CASE, median(samples))])
    return 0


if __name__ == "__main__":
    sys.exit(main())
