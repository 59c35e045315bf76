# SPDX-License-Identifier: Apache-2.0
"""All checks that need a GPU, in one command and one result file: tools/gpu_check."""
