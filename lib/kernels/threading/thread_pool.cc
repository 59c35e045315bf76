// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/threading/thread_pool.h"

#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "lib/kernels/threading/wait_policy.h"

namespace roofbench::kernels {

bool YieldsWhileWaiting() {
  static const bool yields = [] {
    const char* const policy = std::getenv(kWaitPolicy);
    return policy != nullptr && strcasecmp(policy, "passive") == 0;
  }();
  return yields;
}

void SpinBarrier::Wait() {
  const uint32_t round = round_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    return;
  }
  const int most = YieldsWhileWaiting() ? 0 : spins_;
  for (int spins = 0; round_.load(std::memory_order_acquire) == round;) {
    if (spins < most) {
      ++spins;
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::operator()(int64_t n, int64_t grain, Body body) const {
  if (threads_ == 1 || n <= grain) {
    if (n > 0) body({0, n});
    return;
  }
  OnEach([&](int index) {
    if (const Range share = Share(n, grain, index, threads_); share.size() > 0) body(share);
  });
}

void RowShares::Restart() {
  for (int64_t product = 0; product < products_; ++product) taken_[product].store(0, std::memory_order_relaxed);
}

void RowShares::Divide(const Worker& worker, int64_t product, int64_t rows, int64_t grain, int64_t least,
                       FunctionRef<void(Range)> body) {
  const int64_t threads = worker.threads();
  // Three quarters are assigned up front: the rest evens out a thread that is up to two fifths slower than another.
  const int64_t shared = threads == 1 ? rows : rows * 3 / 4 / grain * grain;
  if (const Range own = Share(shared, grain, worker.index(), worker.threads()); own.size() > 0) body(own);
  const int64_t rest = rows - shared;
  std::atomic<int64_t>& taken = taken_[product];
  int64_t begin = taken.load(std::memory_order_relaxed);
  while (begin < rest) {
    const int64_t wanted = std::max(least, (rest - begin) / (2 * threads));
    const int64_t piece = std::min(rest - begin, RoundUp(wanted, grain));
    // Relaxed, because threads exchange only this number. Where another thread was faster, begin is the end of its
    // piece.
    if (!taken.compare_exchange_weak(begin, begin + piece, std::memory_order_relaxed)) continue;
    body({shared + begin, shared + begin + piece});
    begin = taken.load(std::memory_order_relaxed);
  }
}

}  // namespace roofbench::kernels
