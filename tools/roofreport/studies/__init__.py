# SPDX-License-Identifier: Apache-2.0
"""The programs of tools/study, which measure how good the verdicts of tools/report are."""
