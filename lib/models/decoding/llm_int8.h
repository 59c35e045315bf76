// SPDX-License-Identifier: Apache-2.0
// LLM.int8() (Dettmers et al., arXiv:2208.07339): int8 products with a scale for each row of both sides, and columns
// with outliers in 16 bits, in the steps of bitsandbytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/models/decoding/int8_activations.h"

namespace roofbench::models {

// weight int8 [n, k] and row_max fp32 [n]: w = weight · row_max / steps; steps is 127 in LLM.int8(), and 1 for plain
// scales.
struct LlmInt8Matrix {
  at::Tensor weight;
  at::Tensor row_max;
  double steps = kernels::kInt8Largest;
};
LlmInt8Matrix QuantizeLlmInt8(const at::Tensor& w);

// The fixed number of columns, out of `columns`, for which a GPU has room unquantized, so that the host need not wait.
int64_t LlmInt8Room(int64_t columns);

// x [tokens, k] in 16 bits or fp32 times the transposed weight, in x's type. Columns of x with a magnitude of
// `threshold` or more are multiplied unquantized (0: none); a GPU takes only the LlmInt8Room(k) columns with the
// largest magnitudes. Calls `marker` at the end of each stage; `tally` counts the product if the host knows its
// columns.
at::Tensor LlmInt8Linear(const at::Tensor& x, const LlmInt8Matrix& weight, double threshold,
                         const Int8Marker& marker = nullptr, OutlierTally* tally = nullptr);

}  // namespace roofbench::models
