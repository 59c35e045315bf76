# SPDX-License-Identifier: Apache-2.0
"""A figure of a metric for people, as assets/units.js says it too."""

from __future__ import annotations

import math

from roofreport import units

_UNKNOWN = "-"
# Of units that are part of a second: how many of them make one.
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_BARE = ("", "count", "0 or 1")


def shown(value: float | None, unit: str) -> str:
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    if unit in _PER_SECOND:
        return units.time(value / _PER_SECOND[unit])
    if unit == "fraction":
        return f"{units.digits(100 * value)} %"
    if unit in _BARE:
        return units.quantity(value, "").rstrip()
    return units.quantity(value, unit)


def change(ratio: float | None) -> str:
    """A relative change with its sign: +8.2 %, or 12 times where a percentage would be long."""
    if ratio is None or not math.isfinite(ratio):
        return _UNKNOWN
    return f"{units.digits(1 + ratio)} times" if ratio >= 9 else units.percent(ratio)
