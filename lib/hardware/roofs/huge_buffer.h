// SPDX-License-Identifier: Apache-2.0
// Page-aligned memory on huge pages where the system grants them, first touched by the threads that will use it; or on
// small ones, to see what they cost.
#pragma once

#include <cstddef>
#include <memory>

namespace roofbench::hardware {

enum class Pages { kHuge, kSmall };

class HugeBuffer {
 public:
  // Throws std::bad_alloc if the system refuses. Filled with pseudo-random bytes (never zeros: they draw less power) in
  // parallel by `threads` threads, split as RunStream splits it.
  HugeBuffer(std::size_t bytes, int threads, Pages pages = Pages::kHuge);
  // Not touched yet, so that the system has given it no memory.
  static HugeBuffer Untouched(std::size_t bytes, Pages pages);
  HugeBuffer() = default;

  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return memory_ == nullptr ? 0 : memory_.get_deleter().bytes; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace roofbench::hardware
