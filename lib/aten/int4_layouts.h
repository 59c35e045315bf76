// SPDX-License-Identifier: Apache-2.0
// How int4 weights lie in memory for whoever multiplies them: LibTorch, our kernels on a CPU, our kernels on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench {

// LibTorch packs weights for a GPU in blocks of so many columns.
inline constexpr int64_t kTorchInt4Columns = 128;

// Each takes codes [matrices, n, k] on the host, as bytes from 0 to 15, and returns the matrices one after another.

// For at::_weight_int4pack_mm on `device`, at::_weight_int4pack_mm_for_cpu on a CPU. n is a multiple of 16, and for a
// GPU k one of kTorchInt4Columns.
at::Tensor PackInt4ForTorch(const at::Tensor& codes, at::Device device);

// kernels::Int4Weight's tiles, as bytes, with the scales and zeros bf16 [matrices, n, k / group, 2] among them.
at::Tensor PackInt4ForCpu(const at::Tensor& codes, const at::Tensor& scales_zeros, int64_t group,
                          const kernels::ParallelFor& parallel_for);

// kernels::GemvArguments' bytes [matrices, n, k / 2]: the even column in the low four bits.
at::Tensor PackInt4ForGpu(const at::Tensor& codes);

}  // namespace roofbench
