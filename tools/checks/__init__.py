# SPDX-License-Identifier: Apache-2.0
"""The summary of tools/test."""
