# SPDX-License-Identifier: Apache-2.0
"""The programs of tools/study, which measure the error rates of the verdicts of tools/report."""
