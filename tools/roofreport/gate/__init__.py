# SPDX-License-Identifier: Apache-2.0
"""Slowdowns since the last accepted readings of each series, and the nightly run that each began with."""

from roofreport.gate.verdicts import Finding, judge

__all__ = ["Finding", "judge"]
