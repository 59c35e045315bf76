// SPDX-License-Identifier: Apache-2.0
// Products beyond at::mm: LibTorch's by oneDNN and of weights in int8 and int4, and ours by tiles on tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench {

// x[m,k] · weight[n,k]ᵀ (+ bias[n]) by oneDNN, which at::mm does not use for fp32, in the operands' precision. Throws
// c10::Error if LibTorch was built without oneDNN.
at::Tensor OnednnLinear(const at::Tensor& x, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias = std::nullopt);

// The weight in oneDNN's preferred layout for `m` rows of x: an opaque tensor for OnednnLinear. Throws likewise.
at::Tensor OnednnPack(const at::Tensor& weight, int64_t m);

// at::linear in bf16 by tiles.
class LinearByTiles {
 public:
  explicit LinearByTiles(const kernels::TileLinearKernels* tiles) : tiles_(tiles) {}

  bool in_registers() const { return tiles_->in_registers; }
  int64_t least_rows() const { return tiles_->least_rows; }
  bool Takes(const at::Tensor& x) const { return x.scalar_type() == at::kBFloat16 && x.size(0) >= least_rows(); }

  // x[m,k] · weight[n,k]ᵀ (+ bias[n]).
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                        const kernels::ParallelFor& parallel_for);
  // The same with a weight [n,k] that is stored otherwise.
  at::Tensor operator()(const at::Tensor& x, const kernels::StoredRows& weight, int64_t n,
                        const kernels::ParallelFor& parallel_for);

 private:
  // Of x as it is packed here; the weight is up to the caller.
  kernels::TileLinear<kernels::Bf16> Pack(const at::Tensor& x, const at::Tensor& y,
                                          const kernels::ParallelFor& parallel_for);

  const kernels::TileLinearKernels* tiles_;
  at::Tensor packed_;  // x, kept from product to product
};

// x[m,k] · w[k,n] in bf16 by tiles, as bf16 or fp32; x may be the transpose of a tensor without gaps.
at::Tensor MatmulByTiles(const kernels::TileLinearKernels& tiles, const at::Tensor& x, const at::Tensor& w,
                         at::ScalarType type, const kernels::ParallelFor& parallel_for);

// Unchecked requirements of at::_weight_int8pack_mm, LibTorch's product of int8 weights with 16-bit vectors. It reads
// 16 columns at a time, past the end of a row, by loads that fault at an unaligned address.
inline constexpr int64_t kPackedInt8Columns = 16;
inline constexpr int64_t kPackedInt8Alignment = 2 * kPackedInt8Columns;  // of the vectors, in bytes

constexpr bool IsPackedInt8Width(int64_t columns) { return columns % kPackedInt8Columns == 0; }

// Columns of a block in LibTorch's layout of int4 weights for a GPU.
inline constexpr int64_t kTorchInt4Columns = 128;

// Layouts of int4 weights. Each takes codes [matrices, n, k] on the host, as bytes from 0 to 15, and returns the
// matrices in order.

// For at::_weight_int4pack_mm, or at::_weight_int4pack_mm_for_cpu on a CPU. n must be a multiple of 16, and on a GPU k
// one of kTorchInt4Columns.
at::Tensor PackInt4ForTorch(const at::Tensor& codes, at::Device device);

// kernels::Int4Weight's tiles, as bytes, including scales and zeros, bf16 [matrices, n, k / group, 2].
at::Tensor PackInt4ForCpu(const at::Tensor& codes, const at::Tensor& scales_zeros, int64_t group,
                          const kernels::ParallelFor& parallel_for);

// kernels::GemvArguments' bytes [matrices, n, k / 2], with the even column in the low four bits.
at::Tensor PackInt4ForGpu(const at::Tensor& codes);

}  // namespace roofbench
