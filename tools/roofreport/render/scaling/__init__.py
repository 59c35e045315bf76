# SPDX-License-Identifier: Apache-2.0
"""How time grows along a sweep, as tables."""
