# SPDX-License-Identifier: Apache-2.0
"""The one error that ends a command."""


class UnusableInputError(Exception):
    """The input is unusable: exit status 2, with this text and no traceback."""
