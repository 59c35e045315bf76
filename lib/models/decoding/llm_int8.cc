// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/llm_int8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace roofbench::models {
namespace {

// The room on a GPU: at least 64 columns, and one in 64. Models of up to 13 billion parameters have about ten columns
// with outliers (Dettmers et al., figure 4); the densest published sweeps have one in a hundred.
constexpr int64_t kLeastRoom = 64;
constexpr int64_t kRoomOf = 64;

// a · wᵀ. On a GPU LibTorch requires more than 16 rows.
at::Tensor IntProduct(const at::Tensor& a, const at::Tensor& w) {
  constexpr int64_t kLeastRows = 17;
  constexpr int64_t kPadded = 32;
  if (a.is_cpu() || a.size(0) >= kLeastRows) return at::_int_mm(a, w.t());
  const at::Tensor padded = at::zeros({kPadded, a.size(1)}, a.options());
  padded.narrow(0, 0, a.size(0)).copy_(a);
  return at::_int_mm(padded, w.t()).narrow(0, 0, a.size(0));
}

// The columns to multiply unquantized, and the activations without them.
struct Outliers {
  at::Tensor columns = {};  // undefined: none
  at::Tensor x = {};        // [tokens, columns], in x's type
  at::Tensor kept = {};     // fp32 [tokens, k], zeros in those columns
  at::Tensor row_max = {};  // of kept
};

// The statistics omit only the outliers; the product omits their columns.
Outliers FindOutliers(const at::Tensor& x, const at::Tensor& values, const at::Tensor& magnitude, double threshold) {
  const at::Tensor outlier = magnitude.ge(threshold);
  Outliers found{.kept = values.masked_fill(outlier, 0), .row_max = at::amax(magnitude.masked_fill(outlier, 0), {1})};
  const at::Tensor columns = outlier.any(0).nonzero().view({-1});
  if (columns.numel() == 0) return found;
  found.columns = columns;
  found.x = x.index_select(1, columns);
  found.kept.index_fill_(1, columns, 0);
  return found;
}

// The same for a fixed number of columns, which the host knows: those with the largest magnitudes. Columns without
// outliers among them count as zero; further outliers are quantized, and included in the statistics.
Outliers FindSomeOutliers(const at::Tensor& x, const at::Tensor& values, const at::Tensor& magnitude,
                          double threshold) {
  const auto [largest, columns] = at::topk(at::amax(magnitude, {0}), LlmInt8Room(x.size(1)));
  const at::Tensor is_outlier = largest.ge(threshold);
  const at::Tensor left_out = at::zeros({x.size(1)}, is_outlier.options()).scatter_(0, columns, is_outlier);
  const at::Tensor outlier = magnitude.ge(threshold).logical_and_(left_out);
  return {.columns = columns,
          .x = x.index_select(1, columns).mul_(is_outlier),
          .kept = values.masked_fill(left_out, 0),
          .row_max = at::amax(magnitude.masked_fill(outlier, 0), {1})};
}

}  // namespace

int64_t LlmInt8Room(int64_t columns) { return std::min(columns, std::max(kLeastRoom, columns / kRoomOf)); }

LlmInt8Matrix QuantizeLlmInt8(const at::Tensor& w) {
  const at::Tensor values = w.to(at::kFloat);
  const at::Tensor row_max = at::amax(values.abs(), {-1});
  return {(values * InverseStep(row_max).unsqueeze(-1)).round_().to(at::kChar), row_max};
}

at::Tensor LlmInt8Linear(const at::Tensor& x, const LlmInt8Matrix& weight, double threshold, const Int8Marker& marker,
                         OutlierTally* tally) {
  const auto done = [&](Int8Stage stage) {
    if (marker) marker(stage);
  };
  done(Int8Stage::kOther);
  const at::Tensor values = x.to(at::kFloat);
  const at::Tensor magnitude = values.abs();
  const bool counts = x.is_cpu();
  const Outliers outliers = threshold <= 0 ? Outliers{.kept = values, .row_max = at::amax(magnitude, {1})}
                            : counts       ? FindOutliers(x, values, magnitude, threshold)
                                           : FindSomeOutliers(x, values, magnitude, threshold);
  if (tally != nullptr && counts) tally->Add(outliers.columns.defined() ? outliers.columns.numel() : 0);
  done(Int8Stage::kSelect);
  const at::Tensor& row_max = outliers.row_max;
  const at::Tensor quantized = (outliers.kept * InverseStep(row_max).unsqueeze(1)).round_().to(at::kChar);
  done(Int8Stage::kQuantize);
  const at::Tensor products = IntProduct(quantized, weight.weight);
  done(Int8Stage::kProduct);
  at::Tensor y =
      (products * (row_max.unsqueeze(1) * weight.row_max / (kernels::kInt8Largest * weight.steps))).to(x.scalar_type());
  done(Int8Stage::kDequantize);
  if (outliers.columns.defined()) {
    const at::Tensor w = weight.weight.index_select(1, outliers.columns) * (weight.row_max / weight.steps).unsqueeze(1);
    y.add_(at::mm(outliers.x, w.to(x.scalar_type()).t()));
  }
  done(Int8Stage::kOutliers);
  return y;
}

}  // namespace roofbench::models
