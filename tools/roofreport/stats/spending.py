# SPDX-License-Identifier: Apache-2.0
"""Many looks at the same data: how they share the promised rate of false verdicts."""

from __future__ import annotations

from collections.abc import Sequence


def spending_weights(fractions: Sequence[float], power: float) -> list[float]:
    """The share of the error rate that each look may spend, looks being made at these fractions of the budget.

    Kim & DeMets' power family (Biometrika 74, 1987): a share t^power is spent by the time t. The shares are combined by
    the union bound, which holds whatever the dependence between looks is.
    """
    weights = []
    spent = 0.0
    for fraction in fractions:
        total = min(1.0, max(0.0, fraction)) ** power
        weights.append(max(0.0, total - spent))
        spent = max(spent, total)
    return weights


def repeated_p_value(p_values: Sequence[float], weights: Sequence[float]) -> float:
    """A p-value for all looks so far: valid whenever the looking stops."""
    return min(1.0, min((p / w for p, w in zip(p_values, weights, strict=True) if w > 0), default=1.0))
