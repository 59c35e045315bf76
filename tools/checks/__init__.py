# SPDX-License-Identifier: Apache-2.0
"""Checks and the summary of tools/test."""
