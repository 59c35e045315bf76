// SPDX-License-Identifier: Apache-2.0
// A GEMV that computes in host memory the result that lib/kernels/cuda/gpu_kernels.h specifies for ours.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lib/kernels/cuda/gpu_kernels.h"

namespace roofbench {

inline at::Tensor HostView(const void* memory, at::IntArrayRef shape, at::ScalarType type) {
  return at::from_blob(const_cast<void*>(memory), shape, type);
}

// Matrix `expert` of the stack.
inline at::Tensor Matrix(const kernels::GemvArguments& a, int64_t expert) {
  const std::array<int64_t, 2> shape{a.rows, a.cols};
  const auto part = [&](const void* memory, int64_t elements, at::IntArrayRef of, at::ScalarType type) {
    return HostView(static_cast<const char*>(memory) + expert * elements * static_cast<int64_t>(at::elementSize(type)),
                    of, type)
        .to(at::kDouble);
  };
  const int64_t size = a.rows * a.cols;
  using kernels::WeightType;
  switch (a.type) {
    case WeightType::kFp32:
      return part(a.weight, size, shape, at::kFloat);
    case WeightType::kBf16:
      return part(a.weight, size, shape, at::kBFloat16);
    case WeightType::kInt8:
      return part(a.weight, size, shape, at::kChar).mul(part(a.scale, a.rows, {a.rows, 1}, at::kFloat));
    case WeightType::kInt4: {
      const at::Tensor bytes = part(a.weight, size / 2, {a.rows, a.cols / 2}, at::kByte).to(at::kByte);
      const at::Tensor codes = at::stack({bytes.bitwise_and(15), bytes.div(16, "floor")}, -1).view(shape);
      const int64_t groups = a.rows * a.cols / a.group;
      const auto spread = [&](const void* memory) {
        return part(memory, groups, {a.rows, a.cols / a.group}, at::kBFloat16).repeat_interleave(a.group, 1);
      };
      return codes.to(at::kDouble).sub(8).mul(spread(a.scale)).add(spread(a.zero));
    }
  }
  throw std::logic_error("unknown type");
}

// y is the rounded exact result.
inline int HostGemv(const kernels::GemvArguments& a) {
  constexpr int kInvalidValue = 1;
  if (!kernels::TakesGemv(a.type, a.batch, a.cols)) return kInvalidValue;
  const at::ScalarType type = a.type == kernels::WeightType::kFp32 ? at::kFloat : at::kBFloat16;
  const at::Tensor x = HostView(a.x, {a.batch, a.cols}, type).to(at::kDouble);
  std::vector<at::Tensor> of_matrices;
  for (int i = 0; i < a.chosen; ++i) {
    of_matrices.push_back(x.mm(Matrix(a, a.experts == nullptr ? 0 : a.experts[i]).t()));
  }
  HostView(a.y, {a.chosen, a.batch, a.rows}, type).copy_(at::stack(of_matrices));
  return 0;
}

}  // namespace roofbench
