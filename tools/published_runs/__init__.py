# SPDX-License-Identifier: Apache-2.0
"""The experiments that others published, each with one command: tools/published."""
