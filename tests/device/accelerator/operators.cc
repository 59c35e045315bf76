// SPDX-License-Identifier: Apache-2.0
// Operators of a GPU that LibTorch lacks for the CPU, as plain formulas for the CPU: the device runs them as it runs
// all others. Of _scaled_mm the CPU lacks a part.

#include <ATen/TensorOperators.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <array>
#include <tuple>
#include <vector>

#include "tests/device/accelerator/state.h"

namespace roofbench::accelerator {
namespace {

constexpr int64_t kCodes = 8;   // of int4 in a word
constexpr int64_t kLanes = 32;  // of a warp

std::tuple<at::Tensor, at::Tensor> RmsNormGradient(const at::Tensor& dy, const at::Tensor& x, c10::IntArrayRef shape,
                                                   const at::Tensor& rstd, const std::optional<at::Tensor>& weight,
                                                   std::array<bool, 2> wanted) {
  TORCH_CHECK(shape.size() == 1 && weight && weight->scalar_type() == x.scalar_type());
  const at::Tensor units = x.to(at::kFloat) * rstd;
  const at::Tensor gradient = dy.to(at::kFloat) * weight->to(at::kFloat);
  const at::Tensor dx = (gradient - units * (gradient * units).mean(-1, true)) * rstd;
  const at::Tensor products = dy.to(at::kFloat) * units;
  return {wanted[0] ? dx.to(x.scalar_type()) : at::Tensor(),
          wanted[1] ? products.reshape({-1, shape[0]}).sum(0).to(weight->scalar_type()) : at::Tensor()};
}

// pairs uint8 [n, k / 2], the even column in the high four bits. The shape is the GPU's; the order in it is specific to
// this device.
at::Tensor PackInt4(const at::Tensor& pairs, int64_t inner_tiles) {
  const int64_t n = pairs.size(0);
  const int64_t k = 2 * pairs.size(1);
  TORCH_CHECK(pairs.scalar_type() == at::kByte && pairs.is_contiguous() && n % 8 == 0);
  TORCH_CHECK(inner_tiles == 2 || inner_tiles == 4 || inner_tiles == 8);
  TORCH_CHECK(k % (16 * inner_tiles) == 0, "k must be a multiple of ", 16 * inner_tiles);
  const at::Tensor codes = at::stack({pairs.bitwise_right_shift(4), pairs.bitwise_and(15)}, -1).view({n, -1, kCodes});
  at::Tensor words = at::zeros({n, k / kCodes}, at::kInt);
  for (int64_t i = 0; i < kCodes; ++i) words.bitwise_or_(codes.select(2, i).to(at::kInt).bitwise_left_shift(4 * i));
  return words.view({n / 8, k / (16 * inner_tiles), kLanes, inner_tiles / 2});
}

at::Tensor PackedInt4Product(const at::Tensor& x, const at::Tensor& packed, int64_t group, const at::Tensor& scales) {
  const int64_t k = x.size(1);
  TORCH_CHECK(x.scalar_type() == at::kBFloat16 && x.is_contiguous() && packed.is_contiguous());
  TORCH_CHECK(packed.dim() == 4 && packed.size(2) == kLanes && packed.size(1) * packed.size(3) * 32 == k);
  TORCH_CHECK(scales.scalar_type() == at::kBFloat16 && scales.is_contiguous() && scales.size(0) == k / group);
  const at::Tensor words = packed.view({-1, k / kCodes});
  std::vector<at::Tensor> codes;
  for (int64_t i = 0; i < kCodes; ++i) codes.push_back(words.bitwise_right_shift(4 * i).bitwise_and(15));
  const at::Tensor wide = scales.to(at::kFloat).transpose(0, 1).repeat_interleave(group, 1);  // [n, k, 2]
  const at::Tensor weight = (at::stack(codes, -1).view({-1, k}) - 8) * wide.select(2, 0) + wide.select(2, 1);
  return at::mm(x.to(at::kFloat), weight.t()).to(at::kBFloat16);
}

// ScaledBlas.cpp, _scaled_mm_out_cuda: cuBLASLt and CUTLASS multiply a row-major A by a column-major B, by scales of
// both operands or of their rows and columns.
at::Tensor& ScaledProduct(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                          const at::Tensor& scale_b, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&,
                          std::optional<at::ScalarType> type, bool, at::Tensor& y) {
  TORCH_CHECK(a.scalar_type() == at::kFloat8_e4m3fn && b.scalar_type() == at::kFloat8_e4m3fn);
  TORCH_CHECK(a.stride(1) == 1 && b.stride(0) == 1, "mat1 must be row-major and mat2 column-major");
  TORCH_CHECK(a.size(1) % 16 == 0 && b.size(1) % 16 == 0, "mat2's extents must be multiples of 16");
  TORCH_CHECK(scale_a.scalar_type() == at::kFloat && scale_b.scalar_type() == at::kFloat);
  const bool tensors = scale_a.numel() == 1 && scale_b.numel() == 1;
  const bool rows = scale_a.sizes().equals({a.size(0), 1}) && scale_b.sizes().equals({1, b.size(1)});
  TORCH_CHECK(tensors || (rows && scale_a.is_contiguous() && scale_b.is_contiguous()), "Invalid scaling configuration");
  TORCH_CHECK(y.scalar_type() == type && type == at::kBFloat16, "rows are scaled for results in bf16 alone");
  Launch("aten::_scaled_mm", [=] {
    const at::Tensor product = at::mm(OnHost(a).to(at::kFloat), OnHost(b).to(at::kFloat));
    OnHost(y).copy_(product.mul_(OnHost(scale_a)).mul_(OnHost(scale_b)));
  });
  return y;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { library.impl("_scaled_mm.out", &ScaledProduct); }

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_fused_rms_norm_backward", &RmsNormGradient);
  library.impl("_convert_weight_to_int4pack", &PackInt4);
  library.impl("_weight_int4pack_mm", &PackedInt4Product);
}

}  // namespace
}  // namespace roofbench::accelerator
