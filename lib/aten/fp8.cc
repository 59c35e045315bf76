// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/fp8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_mm.h>

namespace roofbench {

Fp8Matrix QuantizeFp8(const at::Tensor& x, Fp8Scales scales) {
  // A matrix or a row of zeros has any scale.
  constexpr double kLeast = 1e-30;
  const at::Tensor magnitude = x.abs();
  const at::Tensor largest =
      scales == Fp8Scales::kRows ? magnitude.amax({1}, /*keepdim=*/true) : magnitude.amax().view({1, 1});
  const at::Tensor scale = largest.to(at::kFloat).clamp_min_(kLeast).div_(kFp8Largest);
  // Beyond the largest number e4m3 has NaN.
  return {(x / scale).clamp_(-kFp8Largest, kFp8Largest).to(at::kFloat8_e4m3fn), scale};
}

void ScaledMmOut(at::Tensor& y, const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                 const at::Tensor& scale_b) {
  at::_scaled_mm_out(y, a, b, scale_a, scale_b, /*bias=*/{}, /*scale_result=*/{}, y.scalar_type());
}

const char* ScaledMmRefuses(Fp8Scales scales, int64_t n, int64_t k, bool on_gpu) {
  constexpr int64_t kBlock = 16;
  if (!on_gpu && scales == Fp8Scales::kRows) {
    return "LibTorch's _scaled_mm on a processor takes one scale per tensor: scales:tensor";
  }
  if (on_gpu && (n % kBlock != 0 || k % kBlock != 0)) {
    return "LibTorch's _scaled_mm on a GPU takes n and k in multiples of 16";
  }
  return nullptr;
}

}  // namespace roofbench
