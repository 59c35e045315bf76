# SPDX-License-Identifier: Apache-2.0
"""Durations as people write them: 90, 90s, 5min, 1.5h."""

from __future__ import annotations

import argparse
import re

_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LONGEST = 7 * 24 * 3600.0


def seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip())
    if match is None or match[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a duration; write 90s, 5min or 1h")
    value = float(match[1]) * _UNITS[match[2]]
    if not 0 < value <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not between 0 and a week")
    return value
