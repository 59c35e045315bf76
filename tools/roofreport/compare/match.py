# SPDX-License-Identifier: Apache-2.0
"""Cases that differ in one axis, as two sides of a comparison: abba's --match."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofreport.errors import UnusableInputError
from roofreport.io import case_name
from roofreport.io.contract import Contract
from roofreport.text import printable


@dataclass(frozen=True)
class Match:
    """The part of a name, `axis:value`, that cases of the base have, and the one that those of the new side have."""

    base: str
    new: str

    def text(self) -> str:
        return f"{self.base}={self.new}"

    def works(self, side: int, names: Iterable[str], contract: Contract) -> dict[str, str]:
        """The names that have the side's part (0: base), be it their family's default, by what is left without it."""
        axis, _, value = (self.base, self.new)[side].partition(":")
        return {
            case_name.without_axis(name, axis): name
            for name in names
            if case_name.value_of(name, axis, contract) == value
        }


def parse(text: str) -> Match:
    """Raises UnusableInputError for what is no axis:value=axis:value, of two values of one axis."""
    parts = text.split("=")
    axes = [part.partition(":") for part in parts]
    if len(parts) != 2 or not all(axis and value and "/" not in value for axis, _, value in axes):
        raise UnusableInputError(
            f"--match={printable(text)}: expected two parts of names, as in impl:eager=impl:native"
        )
    if axes[0][0] != axes[1][0] or parts[0] == parts[1]:
        raise UnusableInputError(f"--match={printable(text)}: expected two values of one axis")
    return Match(*parts)
