# SPDX-License-Identifier: Apache-2.0
"""Rows and columns, and a table as text for the terminal, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import TypeVar

from markupsafe import Markup

from roofreport import units
from roofreport.io.result import Case
from roofreport.terminal import columns
from roofreport.text import shortened, spreadsheet

# The most columns of one kind, such as counters by a pattern: with every row and counter of a file the table would grow
# quadratically.
MOST_COLUMNS = 32
LONGEST_NAME = 300


@dataclass(frozen=True)
class Cell:
    text: str = ""
    value: float | None = None  # as in a file for programs
    numeric: bool = True
    spans: bool = False  # continues over the empty cells to its right
    is_note: bool = False  # of parts joined by "; ", which may be those of other rows


def breakable(name: str) -> Markup:
    """For a page: breaks between the parts of a name, and inside of them only where one is wider than the page."""
    return Markup("<wbr>").join(re.split(r"(?<=[/_])", name))


def words(text: str, limit: int = LONGEST_NAME) -> Cell:
    return Cell(shortened(text, limit), numeric=False)


def note(text: str) -> Cell:
    return Cell(text, numeric=False, is_note=True)


def spanning(text: str) -> Cell:
    return Cell(text, numeric=False, spans=True)


def figure(value: float | None, shown: Callable[[float], str]) -> Cell:
    """The value as `shown` spells it; an empty cell for None."""
    return Cell() if value is None else Cell(shown(value), value)


def ratio(value: float | None, base: float | None) -> Cell:
    """2.00x; an empty cell where either is missing or zero."""
    return figure(value / base if value and base else None, units.times)


@dataclass(frozen=True)
class Table:
    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    legend: tuple[str, ...] = ()

    def without_empty_columns(self) -> Table:
        kept = [i for i in range(len(self.headers)) if any(row[i].text for row in self.rows)]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return Table(tuple(self.headers[i] for i in kept), rows, self.legend)


NOTES = "notes"  # the column that says why figures are in doubt
_DETAIL = re.compile(r" \(ci [^)]*\)")


def kind(doubt: str) -> str:
    """Without what differs between notes of one kind."""
    return _DETAIL.sub("", doubt)


def _marked(found: Table) -> Table:
    """With a mark for each part of a note that several rows share, and one line for what the marks stand for."""
    parts = [kind(part) for row in found.rows for cell in row if cell.is_note for part in _parts(cell)]
    # "10 pairs" is a figure of its row.
    shared = [part for part, count in Counter(parts).items() if count > 1 and not part[:1].isdigit()]
    if not shared:
        return found
    marks = {part: f"[{mark}]" for part, mark in zip(shared, ascii_lowercase, strict=False)}

    def shortened_note(cell: Cell) -> Cell:
        shown = []
        for part in _parts(cell):
            mark = marks.get(kind(part))
            shown.append(mark + "".join(_DETAIL.findall(part)) if mark else part)
        return replace(cell, text="; ".join(shown)) if cell.is_note else cell

    rows = tuple(tuple(map(shortened_note, row)) for row in found.rows)
    return replace(
        found, rows=rows, legend=("; ".join(f"{mark} {part}" for part, mark in marks.items()), *found.legend)
    )


def _parts(cell: Cell) -> list[str]:
    return cell.text.split("; ") if cell.text else []


Row = TypeVar("Row")
Column = tuple[str, Callable[[Row], Cell]]
# As a step takes them; a result in JSON has its counters by the alphabet.
_PHASES = ("forward", "backward", "synchronize", "optimizer")


def named_like(cases: Iterable[Case], suffix: str) -> list[str]:
    """The names of counters without this suffix, phases first and in their order, up to the limit of columns."""
    found = [name.removesuffix(suffix) for case in cases for name in case.counters if name.endswith(suffix)]
    return list(dict.fromkeys([*(phase for phase in _PHASES if phase in found), *found]))[:MOST_COLUMNS]


def table(
    rows: Iterable[Row],
    columns: Sequence[Column[Row]],
    legend: Iterable[str] = (),
    reason: Callable[[Row], str] = lambda row: "",
    named: int = 1,
) -> Table:
    """`columns`: the header of each, and what it shows of a row. `reason`: why a row has no figures; it replaces them,
    after the first `named` columns.
    """

    def cells(row: Row) -> tuple[Cell, ...]:
        why = reason(row)
        shown = tuple(cell(row) for _, cell in columns[: named if why else None])
        return (*shown, spanning(why), *[Cell()] * (len(columns) - named - 1)) if why else shown

    return Table(tuple(header for header, _ in columns), tuple(map(cells, rows)), tuple(legend))


def numeric_columns(table: Table) -> list[bool]:
    return [any(row[i].numeric and row[i].text for row in table.rows) for i in range(len(table.headers))]


_GAP = "  "


def wrapped(text: str, width: int, indent: str = _GAP) -> list[str]:
    """Lines of at most `width`, broken after a space or within a name after a slash; `indent` begins all but the
    first.
    """
    lines = []
    while len(text) > width:
        end = max(text.rfind(" ", 1, width + 1), text.rfind("/", 1, width) + 1)
        end = end if end > len(indent) else width
        lines.append(text[:end].rstrip())
        text = indent + text[end:].lstrip(" ")
    return [*lines, text]


def prose(text: str) -> str:
    """A line of text that fits the terminal."""
    return "\n".join(wrapped(text, columns()))


def _lines_of_columns(widths: Sequence[int], names: int, width: int) -> list[list[int]]:
    """The columns that a row shows on each line: all on one if they fit. If not, the first `names` of them have their
    own lines, and the others follow as they fit.
    """
    if sum(widths) + len(_GAP) * (len(widths) - 1) <= width:
        return [list(range(len(widths)))]
    lines: list[list[int]] = []
    room = 0
    for i, needed in enumerate(widths):
        needed += len(_GAP)  # before the column; the first line begins without one
        if i in (0, names) or needed > room:
            lines.append([])
            room = width + (len(_GAP) if i == 0 else 0)
        lines[-1].append(i)
        room -= needed
    return lines


def terminal(table: Table, width: int | None = None) -> str:
    """Fits the terminal's width: rows that are longer continue on further lines."""
    width = columns() if width is None else width
    table = _marked(table)
    numeric = numeric_columns(table)
    widths = [
        max([len(header), *(len(row[i].text) for row in table.rows if not row[i].spans)])
        for i, header in enumerate(table.headers)
    ]
    layout = _lines_of_columns(widths, numeric.index(True) if True in numeric else len(numeric), width)

    def shown(texts: Sequence[str]) -> list[str]:
        lines = []
        for number, places in enumerate(layout):
            padded = [texts[i].rjust(widths[i]) if numeric[i] else texts[i].ljust(widths[i]) for i in places]
            line = (_GAP if number else "") + _GAP.join(padded).rstrip()
            lines += wrapped(line, width, 2 * _GAP) if line.strip() or not number else []
        return lines

    def shown_row(row: Sequence[Cell]) -> list[str]:
        texts = [cell.text for cell in row]
        place = next((i for i, cell in enumerate(row) if cell.spans), None)
        if place is None or any(texts[place + 1 :]):
            return shown(texts)
        lines = shown([*texts[:place], *[""] * (len(texts) - place)])
        column = sum(widths[:place]) + len(_GAP) * place
        if len(layout) == 1 and column + len(texts[place]) <= width:
            return [lines[0].ljust(column) + texts[place]]
        return [*lines, *wrapped(_GAP + texts[place], width, 2 * _GAP)]

    heads = shown(table.headers)
    rule = shown(["-" * width for width in widths]) if len(layout) == 1 else ["-" * max(map(len, heads))]
    lines = [*heads, *rule, *(line for row in table.rows for line in shown_row(row))]
    return "\n".join([*lines, *(line for text in table.legend for line in wrapped(text, width))]) + "\n"


def markdown_text(text: str) -> str:
    """Literal text: no markup, no formula, no mention of a user by @."""
    return re.sub(r"([\\|<>*_`\[\]&~$])", r"\\\1", text).replace("@", "@<!-- -->")


def markdown(table: Table) -> str:
    def line(texts: list[str]) -> str:
        return "| " + " | ".join(texts) + " |"

    table = _marked(table)
    numeric = numeric_columns(table)
    lines = [
        line([markdown_text(header) for header in table.headers]),
        line(["---:" if is_numeric else "---" for is_numeric in numeric]),
        *(line([markdown_text(cell.text) for cell in row]) for row in table.rows),
    ]
    if table.legend:
        lines += ["", *(markdown_text(text) + "  " for text in table.legend)]
    return "\n".join(lines) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "µ": r"$\mu$",
    "…": r"\dots{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    '"': r"\textquotedbl{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def _latex_text(text: str) -> str:
    # The \\ of the row before would take these as its arguments: a height in brackets, and the star of its other form.
    first = "{}" if text.lstrip().startswith(("[", "*")) else ""
    return first + "".join(_LATEX.get(character, character) for character in text)


def latex(table: Table) -> str:
    table = _marked(table)
    columns = "".join("r" if numeric else "l" for numeric in numeric_columns(table))
    rows = [" & ".join(_latex_text(cell.text) for cell in row) + r" \\" for row in table.rows]
    head = " & ".join(map(_latex_text, table.headers)) + r" \\"
    lines = [f"\\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline", *rows, r"\hline", r"\end{tabular}"]
    return "\n".join([*lines, *(f"% {' '.join(text.split())}" for text in table.legend)]) + "\n"


def _csv_text(cell: Cell) -> str:
    if cell.value is not None:
        return repr(cell.value)
    return spreadsheet(cell.text)


def comma_separated(table: Table) -> str:
    """Numbers with all digits and in base units: seconds, FLOP/s, bytes/s; counters in their own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(spreadsheet, table.headers))
    writer.writerows([[_csv_text(cell) for cell in row] for row in table.rows])
    return out.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "latex": latex,
    "csv": comma_separated,
}
