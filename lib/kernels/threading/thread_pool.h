// SPDX-License-Identifier: Apache-2.0
// The pool of threads that OpenMP keeps, and the view that one of its threads has of it inside a region.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Processors that this process may run on.
int Processors();

// Holds each of `threads` threads until all have come; then it can be used again. Waits by spinning, because a region's
// steps last microseconds, and gives the processor away when it takes longer.
class SpinBarrier {
 public:
  explicit SpinBarrier(int threads) : threads_(threads), spins_(Spins(threads, Processors())) {}
  void Wait();

  // How often a thread looks before it gives its processor away: where there are fewer of them than threads, never, for
  // the one that it waits for may be waiting for that processor.
  static constexpr int Spins(int threads, int processors) {
    constexpr int kSpins = 20'000;  // about a millisecond
    return threads > processors ? 0 : kSpins;
  }

 private:
  alignas(64) std::atomic<int> arrived_ = 0;
  const int threads_;
  const int spins_;
  alignas(64) std::atomic<uint32_t> round_ = 0;  // on a line of its own: the others spin on it
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

  // Calls body(0) … body(threads() - 1), each on a thread of its own where OpenMP grants as many, and returns when all
  // have returned. A body must not throw.
  void OnEach(FunctionRef<void(int index)> body) const;

  // Runs body(worker) once on each thread of one parallel region. OpenMP may grant fewer threads than asked for (a
  // limit, a nested region): worker.threads() says how many there are.
  void Region(FunctionRef<void(const Worker&)> body) const;

 private:
  int threads_;
};

// How the threads of a region divide the rows of one product after another.

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
