// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of attention and of its gradient.
#pragma once

#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

#include "lib/kernels/operators/attention/attention.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {

inline std::ostream& operator<<(std::ostream& out, const AttentionShape& s) {
  return out << "batch " << s.batch << ", heads " << s.heads << " · " << s.group << ", queries " << s.queries
             << ", keys " << s.keys << ", dim " << s.head_dim << (s.causal ? ", causal" : "");
}

// A sum of bf16 weights, each rounded, of values about one.
template <typename T>
inline constexpr double kTolerance = 2e-5;
template <>
inline constexpr double kTolerance<Bf16> = 2e-2;

// Tokens side by side, the heads of each within, followed by other data: the layout of a fused projection.
template <typename T>
struct Tokens {
  Tokens(int64_t batch, int64_t tokens, int64_t heads, int64_t dim, double deviation, uint32_t seed)
      : tokens_(tokens),
        dim_(dim),
        stride_(heads * dim + 3),
        values_(Normal<T>(batch * tokens * stride_, 0, deviation, seed)) {}
  HeadVectors<T> View() { return {values_.data(), tokens_ * stride_, dim_, stride_}; }
  HeadVectors<const T> ConstView() const { return {values_.data(), tokens_ * stride_, dim_, stride_}; }

  int64_t tokens_;
  int64_t dim_;
  int64_t stride_;
  std::vector<T> values_;
};

// Shape `i` of a series that has odd sizes, one key, groups of 1 to 8, more keys than queries and fewer.
inline AttentionShape RandomAttentionShape(uint32_t i, std::mt19937& random) {
  const auto upto = [&](int64_t most) { return static_cast<int64_t>(1 + random() % static_cast<uint64_t>(most)); };
  AttentionShape shape{.batch = upto(2), .heads = upto(2), .group = upto(8), .head_dim = upto(i % 4 == 0 ? 140 : 40)};
  shape.causal = i % 3 != 0;
  shape.keys = i % 10 == 0 ? 1 : i % 5 == 0 ? 500 + upto(200) : upto(150);
  shape.queries = i % 7 == 0 ? shape.keys : upto(i % 5 == 0 ? 20 : 100);
  if (i % 5 == 0) shape.batch = shape.group = 1;
  return shape;
}

}  // namespace roofbench::kernels
