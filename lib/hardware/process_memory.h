// SPDX-License-Identifier: Apache-2.0
// How this process gets its memory, how much it may have, and how much it had.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace roofbench::hardware {

// The system's defaults, or tuned for steps that free and allocate the same tensors repeatedly. The choice affects
// every implementation that allocates its results, and the roofs, so one choice holds for all.
enum class Allocator {
  // Large tensors lie on huge pages, and freed memory stays with the process until its case ends, so that the next step
  // finds its pages where the last one left them (glibc; other C libraries get the huge pages alone).
  kTuned,
  // The C library's defaults, which a program gets without any tuning.
  kSystem,
};

constexpr std::string_view Name(Allocator allocator) { return allocator == Allocator::kTuned ? "tuned" : "system"; }

// Applies to LibTorch's tensors, our buffers and weights, and the streams of the roofs, from now on. LibTorch reads its
// part, THP_MEM_ALLOC_ENABLE, when it makes its first tensor: call this before that, and once per process. If the
// environment has a value that contradicts this choice, nothing is changed; returns the value that was expected.
std::optional<std::string> UseAllocator(Allocator allocator);

// Returns freed memory to the system, so that the next case starts from the same state of the memory.
void ReleaseFreedMemory();

// Limits the private writable memory of this process to its current size plus most of `free_bytes` (see
// AvailableMemoryBytes), so that an overrun raises an exception here instead of invoking the system's out-of-memory
// killer. It replaces the last limit, so it can follow the free memory from case to case. Allocations beyond it fail
// with ENOMEM: std::bad_alloc, or LibTorch's error with the requested bytes. Returns the limit in bytes; 0 if none was
// set: the free memory is unknown, the user's own limit is lower, or a sanitizer is active, whose shadow memory would
// count. `root` replaces "/" for tests.
double LimitMemory(double free_bytes, const std::string& root = "/");

// Removes the limit.
void LiftMemoryLimit();

// The largest resident set during its lifetime: all pages that the system counts for this process, tensors or not. One
// at a time: the system keeps one high-water mark per process, which the constructor lowers to the current resident
// size.
class ProcessMemory {
 public:
  ProcessMemory();

  // Bytes that were resident at construction.
  double bytes_before() const { return before_; }
  // The maximum since then; nullopt where the system does not report it, or does not allow lowering the mark.
  std::optional<double> PeakBytes() const;

 private:
  double before_ = 0;
  bool lowered_ = false;
};

}  // namespace roofbench::hardware
