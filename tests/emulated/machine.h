// SPDX-License-Identifier: Apache-2.0
// A stand-in for a GPU: the threads of a block are fibers that take turns in random order, some of them ahead of the
// others, and the blocks of a grid run one after another in random order. Kernels that rely on unspecified behavior
// fail: threads of a warp do not move together, shared memory begins as NaN, and threads that do not meet at a barrier
// or shuffle are a fault.
#pragma once

#include <cstdint>
#include <functional>
#include <source_location>
#include <stdexcept>

namespace roofbench::emulated {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMostThreads = 1024;

struct Index {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

// Position of the running thread. Blocks are rows of threads: y and z of a thread are 0.
struct Place {
  Index grid, block, block_of_grid, thread;
};
const Place& Here();

// A violation of the language's rules by a kernel.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs kernel() once for each thread of the grid. Throws Fault. Nothing else of a kernel may throw.
void Run(Index grid, Index block, const std::function<void()>& kernel);

// While it lives, only the blocks from this x on run, of grids that would take hours.
class BlocksFrom {
 public:
  explicit BlocksFrom(unsigned x);
  BlocksFrom(const BlocksFrom&) = delete;
  BlocksFrom& operator=(const BlocksFrom&) = delete;
  ~BlocksFrom();
};

// The seed alone determines the orders of turns.
void Seed(uint32_t seed);

// What kernels read: the host's time, until a test sets something else.
struct Clocks {
  std::function<uint64_t()> nanoseconds;
  std::function<long long()> cycles;
};
Clocks& TheClocks();

// Waits until all threads of the block are here.
void Barrier(const std::source_location& where);
// Waits until all lanes of the warp in `lanes` are here, and returns the value of `lane`.
uint64_t Exchange(unsigned lanes, uint64_t value, unsigned lane, const std::source_location& where);

}  // namespace roofbench::emulated
