# SPDX-License-Identifier: Apache-2.0
"""Profiles as tables and flame graphs."""
