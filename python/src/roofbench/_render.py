# SPDX-License-Identifier: Apache-2.0
"""One measurement as a line of a console and as a table of a notebook."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from roofbench import _core

_NOTHING = "-"


def rate(per_second: float | None, unit: str) -> str:
    return _NOTHING if per_second is None else _core.human_rate(per_second, unit)


def share(fraction: float | None) -> str:
    return _NOTHING if fraction is None else _core.human_share(fraction)


def counted(number: float, noun: str) -> str:
    """1 thread, 2 threads."""
    return f"{number:g} {noun}{'' if number == 1 else 's'}"


def signed(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


def figures(seconds: float, counters: Mapping[str, float], roof_name: str) -> dict[str, str]:
    """The columns of the program's table."""
    roof = counters.get("roof")
    return {
        "time": _core.human_time(seconds),
        "FLOP/s": rate(counters.get("FLOP/s"), "FLOP/s"),
        "bytes/s": rate(counters.get("bytes/s"), "B/s"),
        "roof": share(roof) + (f" of {roof_name}" if roof is not None and roof_name else ""),
        "+-ci": _core.human_half_width(counters["ci"]) if "ci" in counters else _NOTHING,
    }


def line(name: str, columns: Mapping[str, str], notes: Sequence[str], failure: str) -> str:
    """ "gemv/cache:warm    1.23 ms   27.3 GFLOP/s   54.6 GB/s  92.1 % of memory  +-0.80 %  noisy (ci)"."""
    if failure:
        return f"{name}  failed: {failure}"
    widths = _core.figure_widths()
    cells = [text.rjust(widths[column.removeprefix("+-")]) for column, text in columns.items()]
    interval = cells[-1].strip()
    known = [f"+-{interval}"] if interval != _NOTHING else []
    return "  ".join([name, *cells[:-1], *known, *([", ".join(notes)] if notes else [])])


# Readable on light and on dark pages: colors of the page, and one red and one amber that both have contrast with.
_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;color:inherit"
_CELL = "padding:.2em .7em;text-align:right;border-bottom:1px solid rgba(128,128,128,.4)"
_BAD = "color:#d8434e;font-weight:600"
_DOUBT = "color:#b07a00;font-weight:600"


def table(name: str, columns: Mapping[str, str], verdicts: Mapping[str, str], failure: str, what: str = "case") -> str:
    """HTML; every text is escaped. `what` is the heading of the name."""
    head = f'<th scope="col" style="{_CELL};text-align:left">{html.escape(what)}</th>'
    head += "".join(f'<th scope="col" style="{_CELL}">{html.escape(column)}</th>' for column in columns)
    cells = f'<th scope="row" style="{_CELL};text-align:left">{html.escape(name)}</th>'
    cells += "".join(f'<td style="{_CELL}">{html.escape(text)}</td>' for text in columns.values())
    lines = [("failed", failure, _BAD)] if failure else []
    lines += [(verdict, why, _DOUBT) for verdict, why in verdicts.items()]
    span = len(columns) + 1
    notes = "".join(
        f'<tr><td colspan="{span}" style="{_CELL};text-align:left"><span style="{style}">{html.escape(word)}</span>: '
        f"{html.escape(why)}</td></tr>"
        for word, why, style in lines
    )
    return f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody><tr>{cells}</tr>{notes}</tbody></table>'
