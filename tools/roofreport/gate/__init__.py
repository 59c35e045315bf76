# SPDX-License-Identifier: Apache-2.0
"""Slowdowns since the last accepted readings of each series, and the nightly run that each began with."""
