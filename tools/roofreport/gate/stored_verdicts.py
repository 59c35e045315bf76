# SPDX-License-Identifier: Apache-2.0
"""The gate's verdicts on a series and a night, kept in the history for its readers, such as the site."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from roofreport.history.records import PROFILE, VERDICTS, Annotation, Series
from roofreport.text import shortened

if TYPE_CHECKING:
    from roofreport.gate.verdicts import Finding
    from roofreport.history.store import Store

_LONGEST = 1000


def find(remarks: Sequence[Annotation], series: Series, night: datetime) -> Annotation | None:
    """The last verdict of a second run; `night`: when its first process began. A series' key holds its metric."""
    own = (
        one for one in reversed(remarks) if one.kind in VERDICTS and one.pattern == series.key and one.since == night
    )
    return next(own, None)


def add(store: Store, night: datetime, found: Sequence[Finding]) -> None:
    """Decisions of a second run, and profiles. Raises UnusableInputError."""
    remarks = store.annotations()
    for one in found:
        if one.second_run:
            before, why = find(remarks, one.series, night), shortened(one.text, _LONGEST)
            if before is None or (before.kind, before.why) != (one.second_run, why):
                store.accept(one.series.key, night, why, one.series.machine.id, one.second_run)
        if one.profile:
            store.accept(one.series.key, night, one.profile, one.series.machine.id, PROFILE)
