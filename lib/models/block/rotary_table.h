// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al., arXiv:2104.09864), in the half-split layout of Llama's published weights.
#pragma once

#include <ATen/core/Tensor.h>

namespace roofbench::models {

// Rotations of the positions 0 … positions-1. Dimension i of a head and dimension i + head_dim/2 form a pair that
// position p turns by p · theta^(-2i / head_dim).
class RotaryTable {
 public:
  // Tables in fp32 (computed in double) on `device`. `head_dim` must be even.
  RotaryTable(int64_t positions, int64_t head_dim, double theta, const at::TensorOptions& device);
  // From angles [positions, pairs], fp64, of the first pairs of a head; its other elements do not turn. Cosines and
  // sines are multiplied by `scale`.
  static RotaryTable OfAngles(const at::Tensor& angles, const at::TensorOptions& device, double scale = 1);
  // From given tables, such as rows of another one.
  RotaryTable(at::Tensor cosines, at::Tensor sines);

  // Rotates x [..., tokens, head_dim], whose first token is at position `first`, in x's precision.
  at::Tensor Rotate(const at::Tensor& x, int64_t first = 0) const;
  // The same for tokens at `positions` [tokens], int64 on x's device; the host does not read them.
  at::Tensor RotateAt(const at::Tensor& x, const at::Tensor& positions) const;
  // [positions, pairs], fp32.
  const at::Tensor& cosines() const { return cosines_; }
  const at::Tensor& sines() const { return sines_; }

 private:
  at::Tensor cosines_;
  at::Tensor sines_;
};

}  // namespace roofbench::models
