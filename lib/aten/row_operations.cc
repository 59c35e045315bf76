// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/row_operations.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstdint>
#include <vector>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/elementwise/activations.h"
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

}  // namespace roofbench
