# SPDX-License-Identifier: Apache-2.0
"""What is held against what: results, programs, implementations, precisions."""
