// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/int8_activations.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/where.h>

#include "lib/aten/elements.h"
#include "lib/observe/ranges.h"

namespace roofbench::models {

at::Tensor InverseStep(const at::Tensor& maximum) {
  return at::where(maximum > 0, maximum.reciprocal() * kernels::kInt8Largest, 0);
}

RoundedVectors RoundToInt8(const at::Tensor& x) {
  const at::Tensor values = x.to(at::kFloat);
  const at::Tensor row_max = at::amax(values.abs(), {1}, /*keepdim=*/true);
  return {(values * InverseStep(row_max)).round_(), row_max / kernels::kInt8Largest};
}

const kernels::Int8Activations& QuantizedVectors::Of(const at::Tensor& x, double threshold, int64_t group,
                                                     const kernels::ParallelFor& parallel_for, const Int8Marker& marker,
                                                     OutlierTally* tally) {
  const auto done = [&](Int8Stage stage) {
    if (marker) marker(stage);
  };
  done(Int8Stage::kOther);
  const auto* const values = Elements<kernels::Bf16>(x);
  observe::Range kernel("roofbench::llm_int8 statistics");
  activations_.Select(values, x.size(0), x.size(1), static_cast<float>(threshold), parallel_for);
  if (tally != nullptr) tally->Add(static_cast<int64_t>(activations_.outliers().size()));
  done(Int8Stage::kSelect);
  kernel.Next("roofbench::llm_int8 quantize");
  activations_.Quantize(values, parallel_for, group);
  done(Int8Stage::kQuantize);
  return activations_;
}

}  // namespace roofbench::models
