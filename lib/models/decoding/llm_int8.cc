// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/llm_int8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

namespace roofbench::models {
namespace {

constexpr double kLargest = 127;

// 127 / maximum, and 0 for a row of zeros.
at::Tensor Inverse(const at::Tensor& maximum) { return at::where(maximum > 0, maximum.reciprocal() * kLargest, 0); }

// a · wᵀ. On a GPU LibTorch wants more than 16 rows.
at::Tensor IntProduct(const at::Tensor& a, const at::Tensor& w) {
  constexpr int64_t kLeastRows = 17;
  constexpr int64_t kPadded = 32;
  if (a.is_cpu() || a.size(0) >= kLeastRows) return at::_int_mm(a, w.t());
  const at::Tensor padded = at::zeros({kPadded, a.size(1)}, a.options());
  padded.narrow(0, 0, a.size(0)).copy_(a);
  return at::_int_mm(padded, w.t()).narrow(0, 0, a.size(0));
}

}  // namespace

LlmInt8Matrix QuantiseLlmInt8(const at::Tensor& w) {
  const at::Tensor values = w.to(at::kFloat);
  const at::Tensor row_max = at::amax(values.abs(), {-1});
  return {(values * Inverse(row_max).unsqueeze(-1)).round_().to(at::kChar), row_max};
}

at::Tensor LlmInt8Linear(const at::Tensor& x, const LlmInt8Matrix& weight, double threshold,
                         const LlmInt8Marker& marker) {
  const auto done = [&](LlmInt8Stage stage) {
    if (marker) marker(stage);
  };
  done(LlmInt8Stage::kOther);
  const at::Tensor values = x.to(at::kFloat);
  const at::Tensor magnitude = values.abs();
  at::Tensor columns;  // that hold an outlier
  at::Tensor row_max;
  at::Tensor kept = values;
  if (threshold > 0) {
    const at::Tensor outlier = magnitude.ge(threshold);
    columns = outlier.any(0).nonzero().view({-1});
    // The statistics leave out the outliers alone; the product leaves out their columns.
    row_max = at::amax(magnitude.masked_fill(outlier, 0), {1});
    kept = values.masked_fill(outlier, 0);
  } else {
    row_max = at::amax(magnitude, {1});
  }
  done(LlmInt8Stage::kSelect);
  at::Tensor quantised = (kept * Inverse(row_max).unsqueeze(1)).round_().to(at::kChar);
  const bool decomposed = columns.defined() && columns.numel() > 0;
  if (decomposed) quantised.index_fill_(1, columns, 0);
  done(LlmInt8Stage::kQuantise);
  const at::Tensor products = IntProduct(quantised, weight.weight);
  done(LlmInt8Stage::kProduct);
  at::Tensor y = (products * (row_max.unsqueeze(1) * weight.row_max / (kLargest * kLargest))).to(x.scalar_type());
  done(LlmInt8Stage::kDequantise);
  if (decomposed) {
    const at::Tensor w = weight.weight.index_select(1, columns) * (weight.row_max / kLargest).unsqueeze(1);
    y.add_(at::mm(x.index_select(1, columns), w.to(x.scalar_type()).t()));
  }
  done(LlmInt8Stage::kOutliers);
  return y;
}

}  // namespace roofbench::models
