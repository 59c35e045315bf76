# SPDX-License-Identifier: Apache-2.0
"""The one error that ends a command."""

from roofreport.text import inert

_LONGEST_PART = 2000  # of the begin and of the end


class UnusableInputError(Exception):
    """The input is unusable: exit status 2, with this text, which may quote the input, and no traceback."""

    def __init__(self, text: str) -> None:
        cut = text if len(text) <= 2 * _LONGEST_PART else f"{text[:_LONGEST_PART]}…{text[-_LONGEST_PART:]}"
        super().__init__(inert(cut))
