// SPDX-License-Identifier: Apache-2.0
// Vectors rounded to 8 bits for products with weights in int8 and int4, LLM.int8() (llm_int8.h) among them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "lib/kernels/operators/products/int8_activations.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::models {

// The stages of a model's time: everything but products with 8-bit vectors, and the steps of one in order. Our kernels
// have only the first kFusedInt8Stages, as they dequantize and add the outliers while they multiply.
enum class Int8Stage { kOther, kSelect, kQuantize, kProduct, kDequantize, kOutliers };
inline constexpr std::array<std::string_view, 6> kInt8StageNames = {"other",   "select",     "quantize",
                                                                    "product", "dequantize", "outliers"};
inline constexpr std::size_t kFusedInt8Stages = 4;
// Called when a stage ends. It began at the end of the previous one.
using Int8Marker = std::function<void(Int8Stage)>;

// Counts the columns that products multiplied unquantized.
struct OutlierTally {
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

// 127 / maximum, and 0 for a row of zeros.
at::Tensor InverseStep(const at::Tensor& maximum);

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
  const kernels::Int8Activations& Of(const at::Tensor& x, double threshold, int64_t group,
                                     const kernels::ParallelFor& parallel_for, const Int8Marker& marker,
                                     OutlierTally* tally);

 private:
  kernels::Int8Activations activations_;
};

}  // namespace roofbench::models
