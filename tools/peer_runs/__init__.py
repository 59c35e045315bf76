# SPDX-License-Identifier: Apache-2.0
"""The same work in other frameworks, beside roofbench: tools/peers."""
