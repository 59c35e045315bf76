// SPDX-License-Identifier: Apache-2.0
// LLM.int8() (Dettmers et al., arXiv:2208.07339): int8 products with a scale for each row of both sides, and columns
// with outliers in 16 bits, in the steps of bitsandbytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "lib/kernels/operators/products/llm_int8.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::models {

// The stages of a model's time: everything but LLM.int8() products, and the steps of one in order. Our kernel has only
// the first kFusedLlmInt8Stages, as it dequantizes and adds the outliers while it multiplies.
enum class LlmInt8Stage { kOther, kSelect, kQuantize, kProduct, kDequantize, kOutliers };
inline constexpr std::array<std::string_view, 6> kLlmInt8StageNames = {"other",   "select",     "quantize",
                                                                       "product", "dequantize", "outliers"};
inline constexpr std::size_t kFusedLlmInt8Stages = 4;
// Called when a stage ends. It began at the end of the previous one.
using LlmInt8Marker = std::function<void(LlmInt8Stage)>;

// Counts the columns that products multiplied unquantized.
struct LlmInt8Tally {
  int64_t products = 0;
  int64_t outlier_columns = 0;

  void Add(int64_t columns) {
    ++products;
    outlier_columns += columns;
  }
  // For each product; nullopt if none was counted.
  std::optional<double> Mean() const {
    if (products == 0) return std::nullopt;
    return static_cast<double>(outlier_columns) / static_cast<double>(products);
  }
};

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
                         const LlmInt8Marker& marker = nullptr, LlmInt8Tally* tally = nullptr);

// Vectors [tokens, k] as integer multiples of a step, within ±127, in fp32.
struct RoundedVectors {
  at::Tensor whole;
  at::Tensor step;  // [tokens, 1]
};
RoundedVectors RoundToInt8(const at::Tensor& x);

// The first two stages of products by our kernels, for x [tokens, k] in bf16, contiguous, on a processor. The result is
// valid until the next call.
class QuantizedVectors {
 public:
  const kernels::LlmInt8Activations& Of(const at::Tensor& x, double threshold, int64_t group,
                                        const kernels::ParallelFor& parallel_for, const LlmInt8Marker& marker,
                                        LlmInt8Tally* tally);

 private:
  kernels::LlmInt8Activations activations_;
};

}  // namespace roofbench::models
