# SPDX-License-Identifier: Apache-2.0
"""What the compiler made of our CUDA kernels: read from their machine code, without a GPU."""
