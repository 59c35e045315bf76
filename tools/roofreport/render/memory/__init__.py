# SPDX-License-Identifier: Apache-2.0
"""Snapshots of memory as tables and timelines."""
