// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of products with int4 weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/simd/streaming.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {

// Matrices [experts, n, k], quantized and packed one after another; k is a multiple of group.
struct PackedInt4 {
  PackedInt4(const std::vector<float>& source, int64_t experts, int64_t n, int64_t k, int64_t group)
      : q(source.size()),
        scales_zeros(source.size() / Size(group) * 2),
        lines(Size(experts * Int4Bytes(n, k, group) / kLineBytes) + 1),
        weight{lines.data()->values, n, k, group} {
    QuantizeInt4(source.data(), k, group, q.data(), scales_zeros.data(), {0, experts * n});
    for (int64_t expert = 0; expert < experts; ++expert) Pack(expert);
  }
  void Pack(int64_t expert = 0) {
    const int64_t first = expert * weight.n * weight.k;
    PackInt4(q.data() + first, scales_zeros.data() + first / weight.group * 2, weight.n, weight.k, weight.group,
             lines.data()->values + expert * Int4Bytes(weight.n, weight.k, weight.group), {0, Int4Tiles(weight.n)});
  }

  std::vector<uint8_t> q;
  std::vector<Bf16> scales_zeros;
  std::vector<Line<std::byte>> lines;
  Int4Weight weight;
};

}  // namespace roofbench::kernels
