# SPDX-License-Identifier: Apache-2.0
"""What a history holds, for people."""
