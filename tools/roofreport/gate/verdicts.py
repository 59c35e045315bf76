# SPDX-License-Identifier: Apache-2.0
"""The newest run of each machine against what its series have been."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from roofreport.gate import fence
from roofreport.gate.finding import Finding, Kind
from roofreport.io.contract import TIME, packaged

if TYPE_CHECKING:
    from roofreport.history.store import Store


def judge(store: Store, metric: str = TIME.name) -> list[Finding]:
    """Worst first."""
    row = packaged().metric(metric) or TIME
    found: list[Finding] = []
    for series, readings in store.history(metric).items():
        values = [reading for reading in readings if reading.value is not None and reading.value > 0]
        if not values or values[-1] is not readings[-1]:
            continue
        logs = [math.log(reading.value) for reading in values if reading.value is not None]
        limits = fence.around(logs[:-1], row.practical)
        if limits is None or not limits.outside(logs[-1]):
            continue
        effect = math.expm1(logs[-1] - limits.center)
        worse = row.worse(effect)
        text = f"{100 * effect:+.1f} % against the last {min(len(logs) - 1, fence.READINGS)} runs"
        before, after = math.exp(limits.center), math.exp(logs[-1])
        kind: Kind = "slower" if worse else "faster"
        found.append(Finding(series, kind, readings[-1].run, before, after, effect, None, text))
    return sorted(found, key=lambda finding: -abs(finding.effect))
