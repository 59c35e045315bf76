# SPDX-License-Identifier: Apache-2.0
import sys

from roofreport.project_folder import REPORT, missing_package
from roofreport.terminal import say


def _main() -> int:
    try:
        from roofreport.cli import main
    except ModuleNotFoundError as missing:
        # tools/report runs the project's own Python, but a user may have made it by hand.
        say(f"{REPORT}: {missing_package(missing)}")
        return 2
    return main()


if __name__ == "__main__":
    sys.exit(_main())
