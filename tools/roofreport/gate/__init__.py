# SPDX-License-Identifier: Apache-2.0
"""What got slower since the last accepted readings of each series, and since when."""

from roofreport.gate.verdicts import Finding, judge

__all__ = ["Finding", "judge"]
