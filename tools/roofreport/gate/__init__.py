# SPDX-License-Identifier: Apache-2.0
"""Slowdowns since the last accepted readings of each series, and their first night."""

from roofreport.gate.verdicts import Finding, judge

__all__ = ["Finding", "judge"]
