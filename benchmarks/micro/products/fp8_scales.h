// SPDX-License-Identifier: Apache-2.0
// The scales of fp8 operands, as their families choose and draw them.
#pragma once

#include <ATen/ops/rand.h>

#include <cstdint>

#include "lib/aten/fp8.h"
#include "lib/cases/point.h"
#include "lib/suite/inputs.h"

namespace roofbench {

// By the axis `scales`: "tensor" or "row".
inline Fp8Scales ScalesAt(const Point& at) {
  return at.Text("scales") == "row" ? Fp8Scales::kRows : Fp8Scales::kTensor;
}
inline bool ScalesRows(const Point& at) { return ScalesAt(at) == Fp8Scales::kRows; }

// fp32, in [0.01, 0.02).
inline at::Tensor DrawScales(Inputs& in, int64_t rows, int64_t columns) {
  return in.Keep([=](at::Generator& generator) { return at::rand({rows, columns}, generator).mul_(0.01).add_(0.01); });
}

}  // namespace roofbench
