"""Student's t distribution."""

from __future__ import annotations


def quantile(probability: float, freedom: float) -> float:
    # SciPy takes a quarter of a second to import: only what needs it pays.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))
