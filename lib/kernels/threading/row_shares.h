// SPDX-License-Identifier: Apache-2.0
// How the threads of a region divide the rows of one product after another.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "lib/kernels/threading/parallel_for.h"
#include "lib/kernels/threading/thread_pool.h"

namespace roofbench::kernels {

// Each thread has a share of most rows for itself, so that it reads long stretches of memory; the rest goes in ever
// smaller pieces to whoever comes first, so that all end together though one of them was slower. Over even shares alone
// the leading of a decoder's two threads waited for 3 to 17 % of a token (Llama-3.2-1B, two-core EPYC, 2026-11-21).
class RowShares {
 public:
  explicit RowShares(int64_t products)
      : taken_(new std::atomic<int64_t>[static_cast<std::size_t>(products)]), products_(products) {}

  // Before each region.
  void Restart();

  // Calls body for what falls to this thread of [0, rows), in whole multiples of `grain` and, of the rest, of at least
  // `least` rows. Each `product` of a region, a number below that of the constructor, is divided by all threads once.
  void Divide(const Worker& worker, int64_t product, int64_t rows, int64_t grain, int64_t least,
              FunctionRef<void(Range)> body);

 private:
  std::unique_ptr<std::atomic<int64_t>[]> taken_;  // of a product: rows of the rest
  int64_t products_;
};

}  // namespace roofbench::kernels
