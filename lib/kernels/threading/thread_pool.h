// SPDX-License-Identifier: Apache-2.0
// OpenMP's pool of threads, and one thread's view of it inside a region.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Processors that this process may run on.
int Processors();

// Between two polls of memory that another thread will change.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// A barrier for `threads` threads, which can be reused. It waits by spinning, because a region's steps last
// microseconds, and yields the processor when the wait takes longer.
class SpinBarrier {
 public:
  explicit SpinBarrier(int threads) : threads_(threads), spins_(Spins(threads, Processors())) {}
  void Wait();

  // The number of polls before a thread yields its processor: with fewer processors than threads, it yields at once,
  // for the awaited thread may be waiting for that processor.
  static constexpr int Spins(int threads, int processors) {
    constexpr int kSpins = 20'000;  // about a millisecond
    return threads > processors ? 0 : kSpins;
  }

 private:
  alignas(64) std::atomic<int> arrived_ = 0;
  const int threads_;
  const int spins_;
  alignas(64) std::atomic<uint32_t> round_ = 0;  // on a separate cache line: the other threads spin on it
};

// The calling thread's place in a region. As a ParallelFor it does its own share of a range and waits for the others.
class Worker final : public ParallelFor {
 public:
  using ParallelFor::operator();
  Worker(int index, int threads, SpinBarrier& barrier) : index_(index), threads_(threads), barrier_(barrier) {}

  int index() const { return index_; }  // 0 … threads() - 1
  int threads() const override { return threads_; }
  void Barrier() const { barrier_.Wait(); }
  // This thread's share, to work on without waiting afterwards.
  Range Own(int64_t n, int64_t grain = 1) const { return Share(n, grain, index_, threads_); }
  void operator()(int64_t n, int64_t grain, Body body) const override {
    if (const Range own = Own(n, grain); own.size() > 0) body(own);
    Barrier();
  }

 private:
  int index_;
  int threads_;
  SpinBarrier& barrier_;
};

// The OpenMP pool, which is LibTorch's pool too where the program links LibTorch's OpenMP runtime.
class ThreadPool final : public ParallelFor {
 public:
  using ParallelFor::operator();
  explicit ThreadPool(int threads) : threads_(threads) {}

  int threads() const override { return threads_; }
  void operator()(int64_t n, int64_t grain, Body body) const override;

  // Calls body(0) … body(threads() - 1), each on a separate thread where OpenMP grants as many, and returns when all
  // have returned. A body must not throw.
  void OnEach(FunctionRef<void(int index)> body) const;

  // Runs body(worker) once on each thread of one parallel region. OpenMP may grant fewer threads than asked for (a
  // limit, a nested region): worker.threads() says how many there are.
  void Region(FunctionRef<void(const Worker&)> body) const;

 private:
  int threads_;
};

// Divides the rows of consecutive products among the threads of a region.

// Each thread has a fixed share of most rows, so that it reads long stretches of memory; the rest goes in decreasing
// pieces to the first thread that is free, so that all end together even if one of them was slower. With even shares
// alone the faster of a decoder's two threads waited for 3 to 17 % of a token (Llama-3.2-1B, two-core EPYC,
// 2026-11-21).
class RowShares {
 public:
  explicit RowShares(int64_t products)
      : taken_(new std::atomic<int64_t>[static_cast<std::size_t>(products)]), products_(products) {}

  // Call before each region.
  void Restart();

  // Calls body for this thread's part of [0, rows), in whole multiples of `grain` and, in the rest, of at least `least`
  // rows. All threads divide each `product` of a region, a number below that of the constructor, once.
  void Divide(const Worker& worker, int64_t product, int64_t rows, int64_t grain, int64_t least,
              FunctionRef<void(Range)> body);

 private:
  std::unique_ptr<std::atomic<int64_t>[]> taken_;  // rows taken of the rest, by product
  int64_t products_;
};

}  // namespace roofbench::kernels
