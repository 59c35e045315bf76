// SPDX-License-Identifier: Apache-2.0
// The reference of y[rows,n] = x[rows,k] · W[n,k]ᵀ for layers that quantize x, W or both, in double precision and a
// block at a time: the whole of W in double may not fit in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace roofbench {

// `count` rows of W from `first` on as products use them, in double precision.
using ExactWeight = std::function<at::Tensor(int64_t first, int64_t count)>;

// x · Wᵀ for rows of x in double precision; `n`: rows of W.
at::Tensor ExactProduct(const at::Tensor& x, int64_t n, const ExactWeight& weight);

// The sums of the rows of x · Wᵀ, by x · (Wᵀ · 1). `seen` returns some rows of x as products use them, in double
// precision.
at::Tensor ExactProductSums(const at::Tensor& x, const std::function<at::Tensor(const at::Tensor& rows)>& seen,
                            int64_t n, const ExactWeight& weight);

}  // namespace roofbench
