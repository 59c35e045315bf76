# SPDX-License-Identifier: Apache-2.0
"""python -m roofbench run FILE"""

import sys

from roofbench._runner import main

if __name__ == "__main__":
    sys.exit(main())
