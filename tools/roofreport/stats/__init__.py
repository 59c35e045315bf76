# SPDX-License-Identifier: Apache-2.0
"""Tests, intervals, fits and decision rules over numbers."""
