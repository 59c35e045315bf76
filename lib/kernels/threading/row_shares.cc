// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/threading/row_shares.h"

#include <algorithm>

namespace roofbench::kernels {

void RowShares::Restart() {
  for (int64_t product = 0; product < products_; ++product) taken_[product].store(0, std::memory_order_relaxed);
}

void RowShares::Divide(const Worker& worker, int64_t product, int64_t rows, int64_t grain, int64_t least,
                       FunctionRef<void(Range)> body) {
  const int64_t threads = worker.threads();
  // Three quarters are shared beforehand: then a thread may be slower than another by two fifths.
  const int64_t shared = threads == 1 ? rows : rows * 3 / 4 / grain * grain;
  if (const Range own = Share(shared, grain, worker.index(), worker.threads()); own.size() > 0) body(own);
  const int64_t rest = rows - shared;
  std::atomic<int64_t>& taken = taken_[product];
  int64_t begin = taken.load(std::memory_order_relaxed);
  while (begin < rest) {
    const int64_t wanted = std::max(least, (rest - begin) / (2 * threads));
    const int64_t piece = std::min(rest - begin, (wanted + grain - 1) / grain * grain);
    // Nothing but the number passes from thread to thread. Where another was faster, begin is what it left.
    if (!taken.compare_exchange_weak(begin, begin + piece, std::memory_order_relaxed)) continue;
    body({shared + begin, shared + begin + piece});
    begin = taken.load(std::memory_order_relaxed);
  }
}

}  // namespace roofbench::kernels
