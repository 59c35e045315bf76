# SPDX-License-Identifier: Apache-2.0
"""The default place of a history."""

from __future__ import annotations

import argparse
import os

from roofreport.place import local_results

VARIABLE = "ROOFBENCH_STORE"


def default() -> str:
    return os.environ.get(VARIABLE) or str(local_results() / "history.db")


def add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        default=default(),
        metavar="WHERE",
        help=f"a file or postgresql://[USER@]HOST/DATABASE; without it ${VARIABLE}, or else results/local/history.db",
    )
