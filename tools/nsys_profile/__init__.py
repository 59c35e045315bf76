# SPDX-License-Identifier: Apache-2.0
"""A case under NVIDIA's profiler: tools/profile."""
