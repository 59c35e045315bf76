# SPDX-License-Identifier: Apache-2.0
"""Cases that differ in an axis, or in several, as two sides of a comparison: abba's --match."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofreport.errors import UnusableInputError
from roofreport.io import case_name
from roofreport.io.contract import Contract
from roofreport.text import printable


@dataclass(frozen=True)
class Match:
    """The parts of a name, `axis:value/axis:value`, that cases of the base have, and those of the new side."""

    base: str
    new: str

    def text(self) -> str:
        return f"{self.base}={self.new}"

    def works(self, side: int, names: Iterable[str], contract: Contract) -> dict[str, str]:
        """The names that have the side's parts (0: base), be they their family's defaults, by what is left without."""
        wanted = _values((self.base, self.new)[side])
        works = {}
        for name in names:
            if all(case_name.value_of(name, axis, contract) == value for axis, value in wanted.items()):
                work = name
                for axis in wanted:
                    work = case_name.without_axis(work, axis)
                works[work] = name
        return works


def _values(text: str) -> dict[str, str]:
    """Axis to value of `axis:value/axis:value`; empty where that is none."""
    parts = [part.partition(":") for part in text.split("/")]
    values = {axis: value for axis, _, value in parts if axis and value}
    return values if len(values) == len(parts) else {}


def parse(text: str) -> Match:
    """Raises UnusableInputError for what is no axis:value=axis:value, of other values of the same axes."""
    parts = text.split("=")
    axes = [_values(part) for part in parts]
    if len(parts) != 2 or not all(axes):
        raise UnusableInputError(
            f"--match={printable(text)}: expected parts of names on two sides, as in impl:eager=impl:native"
        )
    if axes[0].keys() != axes[1].keys() or axes[0] == axes[1]:
        raise UnusableInputError(f"--match={printable(text)}: expected two values of one axis, or of each of several")
    return Match(*parts)
