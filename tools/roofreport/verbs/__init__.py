# SPDX-License-Identifier: Apache-2.0
"""The verbs of the command line: each module has its arguments and its run."""
