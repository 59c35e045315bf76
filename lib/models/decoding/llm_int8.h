// SPDX-License-Identifier: Apache-2.0
// LLM.int8() (Dettmers et al., arXiv:2208.07339): int8 products with a scale a row on both sides, and columns with
// outliers apart in 16 bits, in the steps of bitsandbytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <string_view>

namespace roofbench::models {

// What a model's time is cut into: all that is no LLM.int8() product, and the steps of one, in their order.
enum class LlmInt8Stage { kOther, kSelect, kQuantise, kProduct, kDequantise, kOutliers };
inline constexpr std::array<std::string_view, 6> kLlmInt8StageNames = {"other",   "select",     "quantise",
                                                                       "product", "dequantise", "outliers"};
// Told that a stage ends now, which began where the last one ended.
using LlmInt8Marker = std::function<void(LlmInt8Stage)>;

// weight int8 [n, k] and row_max fp32 [n]: weight = round(w · 127 / row_max).
struct LlmInt8Matrix {
  at::Tensor weight;
  at::Tensor row_max;
};
LlmInt8Matrix QuantiseLlmInt8(const at::Tensor& w);

// x [tokens, k] in 16 bits or fp32 times the transposed weight, in x's type. Columns of x in which any magnitude
// reaches `threshold` are multiplied unquantised; 0: none are. On a GPU few tokens have the 64 columns with the largest
// outliers multiplied so, without a wait; many tokens, as on a CPU, all of them. `marker`, if given, is told of every
// stage once.
at::Tensor LlmInt8Linear(const at::Tensor& x, const LlmInt8Matrix& weight, double threshold,
                         const LlmInt8Marker& marker = nullptr);

}  // namespace roofbench::models
