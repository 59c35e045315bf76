# SPDX-License-Identifier: Apache-2.0
"""Result files: both formats, the contract that explains them, and the names of cases."""
