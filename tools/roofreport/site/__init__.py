# SPDX-License-Identifier: Apache-2.0
"""A history as a folder of pages, which open from a disk or from any web server without requests to other hosts."""
