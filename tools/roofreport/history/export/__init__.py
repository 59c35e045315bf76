# SPDX-License-Identifier: Apache-2.0
"""The history in the formats of other tools, a module a format."""
