// SPDX-License-Identifier: Apache-2.0
// LLM.int8() (Dettmers et al., arXiv:2208.07339): int8 products with a scale a row on both sides, and columns with
// outliers apart in 16 bits, in the steps of bitsandbytes.
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

// What a model's time is cut into: all that is no LLM.int8() product, and the steps of one, in their order. Our kernel
// dequantises and adds the outliers while it multiplies: the first kFusedLlmInt8Stages are all that it has.
enum class LlmInt8Stage { kOther, kSelect, kQuantise, kProduct, kDequantise, kOutliers };
inline constexpr std::array<std::string_view, 6> kLlmInt8StageNames = {"other",   "select",     "quantise",
                                                                       "product", "dequantise", "outliers"};
inline constexpr std::size_t kFusedLlmInt8Stages = 4;
// Told that a stage ends now, which began where the last one ended.
using LlmInt8Marker = std::function<void(LlmInt8Stage)>;

// Of some products, the columns that were multiplied unquantised.
struct LlmInt8Tally {
  int64_t products = 0;
  int64_t outlier_columns = 0;

  void Add(int64_t columns) {
    ++products;
    outlier_columns += columns;
  }
  // Of a product; nullopt where none was counted.
  std::optional<double> Mean() const {
    if (products == 0) return std::nullopt;
    return static_cast<double>(outlier_columns) / static_cast<double>(products);
  }
};

// weight int8 [n, k] and row_max fp32 [n]: w = weight · row_max / steps, of LLM.int8() 127, of a scale a row 1.
struct LlmInt8Matrix {
  at::Tensor weight;
  at::Tensor row_max;
  double steps = kernels::kInt8Largest;
};
LlmInt8Matrix QuantiseLlmInt8(const at::Tensor& w);

// Of `columns`, those that a GPU multiplies unquantised at most: their number is fixed, so that nothing waits for it.
int64_t LlmInt8Room(int64_t columns);

// x [tokens, k] in 16 bits or fp32 times the transposed weight, in x's type. Columns of x in which any magnitude
// reaches `threshold` are multiplied unquantised; 0: none are. A CPU takes all of them, a GPU the LlmInt8Room(k) with
// the largest magnitudes, without a wait. `marker`, if given, is told of every stage once; `tally` counts the product
// where the host knows its columns.
at::Tensor LlmInt8Linear(const at::Tensor& x, const LlmInt8Matrix& weight, double threshold,
                         const LlmInt8Marker& marker = nullptr, LlmInt8Tally* tally = nullptr);

// Vectors [tokens, k] as whole numbers of steps, within ±127, in fp32.
struct RoundedVectors {
  at::Tensor whole;
  at::Tensor step;  // [tokens, 1]
};
RoundedVectors RoundToInt8(const at::Tensor& x);

// The first two stages of products by our kernels, on a processor: x [tokens, k] in bf16, contiguous. What they leave
// is good until the next call.
class QuantisedVectors {
 public:
  const kernels::LlmInt8Activations& Of(const at::Tensor& x, double threshold, int64_t group,
                                        const kernels::ParallelFor& parallel_for, const LlmInt8Marker& marker,
                                        LlmInt8Tally* tally);

 private:
  kernels::LlmInt8Activations activations_;
};

}  // namespace roofbench::models
