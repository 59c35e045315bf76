// SPDX-License-Identifier: Apache-2.0
#include "lib/models/native/residual_stream.h"

#include <cstddef>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/rows/norm.h"
#include "lib/models/native/region_products.h"

namespace roofbench::models {

using kernels::Bf16;
using kernels::Range;
using kernels::SerialFor;
using kernels::Worker;

ResidualStream::ResidualStream(int64_t tokens, int64_t d, float epsilon, int threads, bool is_own)
    : d_(d), epsilon_(epsilon) {
  const auto elements = static_cast<std::size_t>(tokens * d);
  const auto copies = static_cast<std::size_t>(is_own ? threads : 1);
  own_.assign(copies, std::vector<float>(elements));
  if (is_own) normed_ = own_;
}

template <typename T>
void ResidualStream::Begin(const Worker& worker, const T* table, const int64_t* ids, int64_t tokens, float scale) {
  float* const to = of(worker);
  const auto fill = [&](Range range) {
    for (int64_t i = range.begin; i < range.end; ++i)
      to[i] = scale * kernels::ToFloat(table[ids[i / d_] * d_ + i % d_]);
  };
  is_own() ? fill({0, tokens * d_}) : worker(tokens * d_, fill);
}

template <typename T>
void ResidualStream::Norm(const Worker& worker, const at::Tensor& weight, int64_t tokens, T* to) {
  const PartRange range(worker, "roofbench::rms_norm");
  Run(
      kernels::RmsNorm<float, T>{
          .x = of(worker), .y = to, .weight = Elements<float>(weight), .rows = tokens, .cols = d_, .eps = epsilon_},
      SerialFor());
}

void ResidualStream::AddNormed(const Worker& worker, const at::Tensor& weight, int64_t tokens, const float* added) {
  const PartRange range(worker, "roofbench::rms_norm");
  float* const normed = normed_[Index(worker)].data();
  Run(
      kernels::RmsNorm<float>{
          .x = added, .y = normed, .weight = Elements<float>(weight), .rows = tokens, .cols = d_, .eps = epsilon_},
      SerialFor());
  float* const residual = of(worker);
  for (int64_t i = 0; i < tokens * d_; ++i) residual[i] += normed[i];
}

template void ResidualStream::Begin(const Worker&, const float*, const int64_t*, int64_t, float);
template void ResidualStream::Begin(const Worker&, const Bf16*, const int64_t*, int64_t, float);
template void ResidualStream::Norm(const Worker&, const at::Tensor&, int64_t, float*);
template void ResidualStream::Norm(const Worker&, const at::Tensor&, int64_t, Bf16*);

}  // namespace roofbench::models
