# SPDX-License-Identifier: Apache-2.0
"""Programs beside tools/report that measure how good its verdicts are: tools/error_rate, tools/simulated_year."""
