# SPDX-License-Identifier: Apache-2.0
"""Data as scripts, since a page that was opened from a file may load scripts but not fetch data.

Each is one call, received({"…": …}), in ASCII. Strangers' words in it are strings of JSON and nothing else.
"""

from __future__ import annotations

import json
import math
from typing import Any

from roofreport.render.chart import MOST
from roofreport.text import printable

_LONGEST_WORD = 300


def words(text: str, limit: int = _LONGEST_WORD) -> str:
    """Strangers' words on one line, with what would turn or hide the text around it spelt out."""
    return printable(text, limit)


def number(value: float | None, digits: int = 6) -> float | None:
    """`value` with as many digits as a page shows; None for what no chart can place."""
    if value is None or not math.isfinite(value) or abs(value) > MOST:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def text(name: str, value: Any) -> str:
    """`name` is what a page asks for; `value` is made of what JSON knows. Raises ValueError for what it does not."""
    dumped = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f"received({json.dumps(name)},{dumped});\n"
