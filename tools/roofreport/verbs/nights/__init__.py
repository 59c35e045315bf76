# SPDX-License-Identifier: Apache-2.0
"""The verbs that keep the runs of many nights, and tell what changed."""
