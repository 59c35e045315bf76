// SPDX-License-Identifier: Apache-2.0
// Loads that wait for each other: the latency of memory, at whatever level of it the lines lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/hardware/roofs/huge_buffer.h"

namespace roofbench::hardware {

// A random cycle through all cache lines of a buffer, by Sattolo's algorithm: each line holds the address of the next,
// which no prefetcher can guess.
class PointerChase {
 public:
  // `bytes`: whole lines. Throws std::bad_alloc if the system refuses.
  PointerChase(std::size_t bytes, Pages pages);

  int64_t lines() const { return lines_; }
  // The line that the last load reached; at first line 0.
  int64_t line() const { return LineOf(at_); }
  // Loads so many lines, one after the other, from where the last call stopped.
  void Follow(int64_t loads);

  // For checks, by a plain walk from line 0: the line that so many loads reach, and after how many they are back.
  int64_t LineAfter(int64_t loads) const;
  int64_t CycleLength() const;

 private:
  static constexpr std::ptrdiff_t kLineBytes = 64;

  std::byte* Line(int64_t line) const { return memory_.data() + line * kLineBytes; }
  int64_t LineOf(const void* at) const { return (static_cast<const std::byte*>(at) - memory_.data()) / kLineBytes; }

  HugeBuffer memory_;
  int64_t lines_;
  const void* at_;
};

}  // namespace roofbench::hardware
