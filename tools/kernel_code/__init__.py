# SPDX-License-Identifier: Apache-2.0
"""Checks the machine code of our CUDA kernels, without a GPU: tools/kernel_table."""
