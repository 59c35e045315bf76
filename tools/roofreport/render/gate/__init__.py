# SPDX-License-Identifier: Apache-2.0
"""What the gate found, in the formats of those who read it."""
