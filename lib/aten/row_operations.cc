// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/row_operations.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstdint>
#include <vector>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/elementwise/activations.h"
#include "lib/kernels/operators/elementwise/rope.h"
#include "lib/kernels/operators/rows/norm.h"

namespace roofbench {

at::Tensor RmsNormOfRows(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                         const kernels::ParallelFor& parallel_for, const at::Tensor& rstd) {
  TORCH_CHECK(x.is_contiguous(), "rows with gaps");
  const at::Tensor wide = weight.to(at::kFloat).contiguous();
  at::Tensor y = at::empty_like(x);
  WithElement(x, [&]<typename T>(T) {
    kernels::Run(kernels::RmsNorm<T>{.x = Elements<T>(x),
                                     .y = Elements<T>(y),
                                     .weight = Elements<float>(wide),
                                     .rstd = rstd.defined() ? Elements<float>(rstd) : nullptr,
                                     .rows = x.numel() / x.size(-1),
                                     .cols = x.size(-1),
                                     .eps = static_cast<float>(epsilon)},
                 parallel_for);
  });
  return y;
}

at::Tensor SiluMulOfHalves(const at::Tensor& gate_up, const kernels::ParallelFor& parallel_for) {
  TORCH_CHECK(gate_up.is_contiguous(), "rows with gaps");
  std::vector<int64_t> shape = gate_up.sizes().vec();
  shape.back() /= 2;
  const int64_t width = shape.back();
  at::Tensor y = at::empty(shape, gate_up.options());
  WithElement(gate_up, [&]<typename T>(T) {
    const T* const gates = Elements<T>(gate_up);
    T* const to = Elements<T>(y);
    parallel_for(y.numel() / width, [&](kernels::Range rows) {
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        const T* const gate = gates + 2 * row * width;
        kernels::Run(kernels::SiluMul<T>{.gate = gate, .up = gate + width, .y = to + row * width, .n = width},
                     kernels::SerialFor());
      }
    });
  });
  return y;
}

void TurnHeads(const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines,
               const kernels::ParallelFor& parallel_for) {
  TORCH_CHECK(heads.stride(-1) == 1 && cosines.is_contiguous() && sines.is_contiguous(), "rows with gaps");
  const int64_t tokens = heads.size(2);
  const int64_t pairs = cosines.size(1);
  WithElement(heads, [&]<typename T>(T) {
    T* const first = Elements<T>(heads);
    parallel_for(heads.size(0) * tokens, [&](kernels::Range range) {
      for (int64_t i = range.begin; i < range.end; ++i) {
        const int64_t token = i % tokens;
        T* const x = first + i / tokens * heads.stride(0) + token * heads.stride(2);
        // All heads of a token are at one position.
        kernels::Run(kernels::Rope<T>{.x = x,
                                      .y = x,
                                      .cosines = Elements<float>(cosines) + token * pairs,
                                      .sines = Elements<float>(sines) + token * pairs,
                                      .rows = heads.size(1),
                                      .positions = 1,
                                      .cols = 2 * pairs,
                                      .x_stride = heads.stride(1),
                                      .y_stride = heads.stride(1)},
                     kernels::SerialFor());
      }
    });
  });
}

}  // namespace roofbench
