# SPDX-License-Identifier: Apache-2.0
"""Names of cases from older programs, as they are spelt today."""

from __future__ import annotations

from roofreport.io.contract import Contract, packaged

_MOST_LISTED = 6


def in_force(brought: Contract) -> Contract | None:
    """The contract by which names of a file or program that brought this one are read; None: they are today's."""
    ours = packaged()
    if brought is ours:
        return ours
    return ours.over(brought) if brought.version < ours.version else None


def today(name: str, contract: Contract) -> tuple[str, list[str]]:
    """A case's name of today, and what was changed in it: "mode:fwd of train_step is pass:inference"."""
    changes: list[str] = []
    was, *parts = name.split("/")
    table = contract.renamed
    family = table.families.get(was, was)
    if family != was:
        changes.append(f"{was} is {family}")
    known = contract.families.get(family)
    kept = [family]
    for part in parts:
        old_axis, colon, old_value = part.partition(":")
        axis, value = table.axis((was, family), old_axis, old_value) if colon else (old_axis, old_value)
        if (axis, value) == (old_axis, old_value):
            kept.append(part)
            continue
        changes.append(f"{part} of {family} is {axis}:{value}")
        spec = known.axis(axis) if known else None
        # A default is left out of names.
        if spec is None or spec.default != value:
            kept.append(f"{axis}:{value}")
    return "/".join(kept), changes


def note(changes: list[str]) -> str:
    """One line for all names of a file; empty without changes."""
    found = list(dict.fromkeys(changes))
    more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    return f"read with today's names: {', '.join(found[:_MOST_LISTED])}{more}" if found else ""
