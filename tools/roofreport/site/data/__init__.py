# SPDX-License-Identifier: Apache-2.0
"""What the scripts of a site load: a history as JSON, small enough for a page."""
