# SPDX-License-Identifier: Apache-2.0
"""python -m roofbench run FILE"""

from __future__ import annotations

import sys

from roofbench import _core, _runner

_USAGE = """usage: python -m roofbench run FILE [flags]   measures the families of a file; run --help lists the flags
       python -m roofbench --version
"""


def main() -> int:
    verb, *rest = sys.argv[1:] or [""]
    if verb == "run":
        return _runner.main(rest)
    if verb == "--version":
        print(f"roofbench {_core.version} ({_core.git_revision})")
        return _runner.OK
    asked = verb in ("--help", "-h")
    print(_USAGE, end="", file=sys.stdout if asked else sys.stderr)
    return _runner.OK if asked else _runner.REFUSED


if __name__ == "__main__":
    sys.exit(main())
