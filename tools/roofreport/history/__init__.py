# SPDX-License-Identifier: Apache-2.0
"""The history: every added run, in one database, and the types that it is read back as."""
