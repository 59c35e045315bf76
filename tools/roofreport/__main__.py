# SPDX-License-Identifier: Apache-2.0
import sys

from roofreport.project_folder import INSTALLS, REPORT
from roofreport.terminal import say


def _main() -> int:
    try:
        from roofreport.cli import main
    except ModuleNotFoundError as missing:
        # tools/report runs the project's own Python, but a user may have made it by hand.
        say(f"{REPORT}: the Python package {missing.name} is missing; {INSTALLS}")
        return 2
    return main()


if __name__ == "__main__":
    sys.exit(_main())
