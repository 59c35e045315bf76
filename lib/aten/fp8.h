// SPDX-License-Identifier: Apache-2.0
// Matrices in fp8 (e4m3), their scales, and LibTorch's product of two.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace roofbench {

// The largest number of e4m3.
inline constexpr double kFp8Largest = 448;

// In fp32: one of a whole matrix, or one of each row of x [m, k] and of a weight [n, k].
enum class Fp8Scales { kTensor, kRows };

struct Fp8Matrix {
  at::Tensor data;   // e4m3 [m, k]
  at::Tensor scale;  // [1, 1] or [m, 1]: x = data · scale
};

// The largest magnitude becomes kFp8Largest.
Fp8Matrix QuantizeFp8(const at::Tensor& x, Fp8Scales scales);

// y[m,n] = (a[m,k] · scale_a) · (b[k,n] · scale_b) by _scaled_mm: b column-major, as tensor cores take it, y in bf16,
// scales [1,1] and [1,1], or [m,1] and [1,n]. Partial sums are added in fp32: with use_fast_accum Hopper would keep
// about 14 bits of them (arXiv:2412.19437, 3.3.2).
void ScaledMmOut(at::Tensor& y, const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                 const at::Tensor& scale_b);

// Why _scaled_mm does not take such operands; nullptr: it does.
const char* ScaledMmRefuses(Fp8Scales scales, int64_t n, int64_t k, bool on_gpu);

}  // namespace roofbench
