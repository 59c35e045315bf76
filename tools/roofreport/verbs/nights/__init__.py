# SPDX-License-Identifier: Apache-2.0
"""The verbs that keep many nightly runs, and report changes."""
