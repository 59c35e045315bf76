# SPDX-License-Identifier: Apache-2.0
"""Runs the same work in other frameworks and in roofbench: tools/peers."""
