// SPDX-License-Identifier: Apache-2.0
#include "lib/models/block/rotary_table.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>

#include <utility>
#include <vector>

namespace roofbench::models {
namespace {

at::Tensor InverseFrequencies(int64_t head_dim, double theta) {
  TORCH_CHECK(head_dim % 2 == 0, "RoPE turns pairs: a head of ", head_dim, " dimensions has an odd one");
  return at::pow(theta, at::arange(0, head_dim, 2, at::kDouble).div(-static_cast<double>(head_dim)));
}

// Turns the pairs (a, b) of x by angles with these cosines and sines [tokens, pairs]; elements after them stay.
at::Tensor TurnPairs(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines) {
  const at::Tensor c = cosines.to(x.scalar_type());
  const at::Tensor s = sines.to(x.scalar_type());
  const int64_t half = cosines.size(-1);
  const at::Tensor a = x.narrow(-1, 0, half);
  const at::Tensor b = x.narrow(-1, half, half);
  std::vector<at::Tensor> parts = {a.mul(c).sub(b.mul(s)), b.mul(c).add(a.mul(s))};
  if (const int64_t others = x.size(-1) - 2 * half; others > 0) parts.push_back(x.narrow(-1, 2 * half, others));
  return at::cat(parts, -1);
}

}  // namespace

RotaryTable::RotaryTable(int64_t positions, int64_t head_dim, double theta, const at::TensorOptions& device)
    : RotaryTable(
          OfAngles(at::outer(at::arange(positions, at::kDouble), InverseFrequencies(head_dim, theta)), device)) {}

RotaryTable RotaryTable::OfAngles(const at::Tensor& angles, const at::TensorOptions& device, double scale) {
  const auto type = device.dtype(at::kFloat);
  return {angles.cos().mul_(scale).to(type), angles.sin().mul_(scale).to(type)};
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
