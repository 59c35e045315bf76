# SPDX-License-Identifier: Apache-2.0
"""A history as a folder of pages, which open from a disk or from any web server and ask no other host for anything."""
