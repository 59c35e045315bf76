# SPDX-License-Identifier: Apache-2.0
"""Numbers in readable form."""

from __future__ import annotations

_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (1e-6, "µs", 1e6), (0.0, "ns", 1e9))


def digits(value: float, count: int = 3) -> str:
    """To `count` significant digits, never with an exponent between 0.001 and a million."""
    if value == 0:
        return "0"
    text = f"{value:.{count}g}"
    if "e" not in text:
        return text
    return f"{value:.0f}" if abs(value) >= 1 and abs(value) < 1e6 else text


def quantity(value: float, unit: str, count: int = 3) -> str:
    """1.23 GFLOP/s, to `count` significant digits."""
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{digits(value / factor, count)} {prefix}{unit}"
    return f"{digits(value, count)} {unit}"


def bytes_(value: float) -> str:
    return quantity(value, "B")


def size(value: float) -> str:
    """Of a memory, in powers of two: 64 KiB."""
    power = max(0, min(6, (int(abs(value)).bit_length() - 1) // 10))
    return f"{digits(value / 1024**power)} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"


def time(seconds: float) -> str:
    for least, unit, factor in _TIMES:
        if abs(seconds) >= least:
            return f"{digits(seconds * factor)} {unit}"
    return "unknown"  # it is not a number


# For units of time: how many of them make a second.
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_SCALED = ("B", "B/s", "FLOP/s")
_BARE = ("", "count", "number", "0 or 1")


def spelled(value: float, unit: str) -> str:
    """A figure of the contract, in a unit of its own: 1.23 ms, 50 %, 4000, 12.3 M, 96.5 tokens/s."""
    if unit in _PER_SECOND:
        return time(value / _PER_SECOND[unit])
    if unit == "fraction":
        return share(value)
    name = "" if unit in _BARE else unit
    scaled = unit in _SCALED or abs(value) >= 1e6
    return (quantity(value, name) if scaled else f"{digits(value)} {name}").rstrip()


def percent(ratio: float, decimals: int = 1) -> str:
    """+3.0 %, of 0.03."""
    return f"{100 * ratio:+.{decimals}f} %"


def share(ratio: float) -> str:
    """To three significant digits: 50 %, of 0.5."""
    return f"{digits(100 * ratio)} %"


def tenths(ratio: float) -> str:
    """To a tenth of a percent: 50.0 %, of 0.5."""
    return f"{100 * ratio:.1f} %"


def half_width(ratio: float) -> str:
    """That of an interval: beyond the figure itself, its size says nothing."""
    return ">100 %" if ratio > 1 else share(ratio)


def times(ratio: float) -> str:
    return f"{ratio:.2f}x"


def counted(number: float, noun: str, plural: str = "s") -> str:
    """1 case, 2 cases."""
    return f"{digits(number)} {noun}{'' if number == 1 else plural}"


def are(number: float) -> str:
    """What goes on after "1 of 4 points"."""
    return "is" if number == 1 else "are"


def clock(seconds: float) -> str:
    """2:05, of 125 seconds."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"
