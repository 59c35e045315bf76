# SPDX-License-Identifier: Apache-2.0
"""How much faster each case is than the one that differs from it in one axis alone: table's --baseline."""

from __future__ import annotations

from collections.abc import Mapping

from roofreport.errors import UnusableInputError
from roofreport.io import case_name
from roofreport.io.contract import Contract
from roofreport.io.result import Case, State
from roofreport.text import printable


def over(baseline: str, cases: Mapping[str, Case], contract: Contract) -> dict[str, float]:
    """Case to the baseline's time over its own, where both were measured. `baseline` is as impl:eager, be that value in
    names or a default that they leave out.

    Raises UnusableInputError if no case has it."""
    axis, _, value = baseline.partition(":")
    bases = {
        case_name.without_axis(name, axis): case
        for name, case in cases.items()
        if case_name.value_of(name, axis, contract) == value
    }
    if not value or not bases:
        raise UnusableInputError(f"--baseline={printable(baseline)}: no case has it (AXIS:VALUE, as impl:eager)")
    found = {}
    for name, case in cases.items():
        base = bases.get(case_name.without_axis(name, axis))
        if base is None or State.MEASURED is not case.state or State.MEASURED is not base.state:
            continue
        if case.seconds > 0 and case_name.value_of(name, axis, contract) is not None:
            found[name] = base.seconds / case.seconds
    return found
