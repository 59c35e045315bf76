# SPDX-License-Identifier: Apache-2.0
"""Comparisons of results, programs, implementations and precisions."""
