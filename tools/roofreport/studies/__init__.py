# SPDX-License-Identifier: Apache-2.0
"""The programs tools/error_rate and tools/simulated_year: how often the verdicts of tools/report are wrong."""
