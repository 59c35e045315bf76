# SPDX-License-Identifier: Apache-2.0
"""Runs a package beside this file as a program: python -I tools/isolated.py PACKAGE [ARGUMENT…].

`python -m` would also take modules of the current folder, which may be anybody's: an argparse.py there would be run.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
