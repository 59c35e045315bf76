# SPDX-License-Identifier: Apache-2.0
"""The cases that tools/gpu_check measures our kernels with."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from kernel_code import measured


def test_the_flags_choose_the_cases_that_launch_a_kernel(program: Path) -> None:
    listing: list[str | Path] = [program, "--device=cuda", *measured.FLAGS, "--benchmark_list_tests"]
    listed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()
    assert len(listed) == 42, "24 products and 18 of rows: the axes cross several times as many"
    for kernel, names in measured.CASES.items():
        assert any(re.search(names, case) for case in listed), kernel
    for case in listed:
        assert any(re.search(names, case) for names in measured.CASES.values()), f"{case} is of no kernel"
