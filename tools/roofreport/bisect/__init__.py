# SPDX-License-Identifier: Apache-2.0
"""Which commit made a case slower: builds commits and compares them with the good one by A B B A."""
