// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/rotary_table.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>

#include <utility>

namespace roofbench::models {
namespace {

at::Tensor InverseFrequencies(int64_t head_dim, double theta) {
  TORCH_CHECK(head_dim % 2 == 0, "RoPE turns pairs: a head of ", head_dim, " dimensions has an odd one");
  return at::pow(theta, at::arange(0, head_dim, 2, at::kDouble).div(-static_cast<double>(head_dim)));
}

// Turns the pairs (a, b) of x by angles with these cosines and sines [tokens, head_dim/2].
at::Tensor TurnPairs(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines) {
  const at::Tensor c = cosines.to(x.scalar_type());
  const at::Tensor s = sines.to(x.scalar_type());
  const int64_t half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half);
  const at::Tensor b = x.narrow(-1, half, half);
  return at::cat({a.mul(c).sub(b.mul(s)), b.mul(c).add(a.mul(s))}, -1);
}

}  // namespace

RotaryTable::RotaryTable(int64_t positions, int64_t head_dim, double theta, const at::TensorOptions& device)
    : RotaryTable(positions, InverseFrequencies(head_dim, theta), device) {}

RotaryTable::RotaryTable(int64_t positions, const at::Tensor& inverse_frequencies, const at::TensorOptions& device) {
  const at::Tensor angles =
      at::outer(at::arange(positions, at::kDouble), inverse_frequencies.to(at::kCPU, at::kDouble));
  cosines_ = angles.cos().to(device.dtype(at::kFloat));
  sines_ = angles.sin().to(device.dtype(at::kFloat));
}

RotaryTable::RotaryTable(at::Tensor cosines, at::Tensor sines)
    : cosines_(std::move(cosines)), sines_(std::move(sines)) {}

at::Tensor RotaryTable::Rotate(const at::Tensor& x, int64_t first) const {
  return TurnPairs(x, cosines_.narrow(0, first, x.size(-2)), sines_.narrow(0, first, x.size(-2)));
}

at::Tensor RotaryTable::RotateAt(const at::Tensor& x, const at::Tensor& positions) const {
  return TurnPairs(x, cosines_.index_select(0, positions), sines_.index_select(0, positions));
}

}  // namespace roofbench::models
