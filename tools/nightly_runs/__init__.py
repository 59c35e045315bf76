# SPDX-License-Identifier: Apache-2.0
"""A night of measuring, from the build to the site."""
