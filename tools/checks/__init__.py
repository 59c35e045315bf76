# SPDX-License-Identifier: Apache-2.0
"""What tools/test runs beside the tests."""
