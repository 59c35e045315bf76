# SPDX-License-Identifier: Apache-2.0
"""Runs a module of this folder as a program: python -I tools/isolated.py MODULE [ARGUMENT…].

Unlike `python -m`, it never imports modules of the current folder, which other users may have written.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
