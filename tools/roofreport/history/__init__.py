# SPDX-License-Identifier: Apache-2.0
"""The history: every run that was added, in one database, and what it is read back as."""
