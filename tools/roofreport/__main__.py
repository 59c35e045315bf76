# SPDX-License-Identifier: Apache-2.0
import sys

from roofreport.terminal import say


def _main() -> int:
    try:
        from roofreport.cli import main
    except ModuleNotFoundError as missing:
        # tools/report runs the project's own Python, but a user may have made it by hand.
        say(f"tools/report: the Python package {missing.name} is missing; tools/setup installs it")
        return 2
    return main()


if __name__ == "__main__":
    sys.exit(_main())
