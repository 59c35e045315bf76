# SPDX-License-Identifier: Apache-2.0
"""Snapshots of memory as PyTorch writes them."""
