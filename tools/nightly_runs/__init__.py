# SPDX-License-Identifier: Apache-2.0
"""A nightly run, from the build to the site: tools/nightly."""
