// SPDX-License-Identifier: Apache-2.0
// Page-aligned memory on huge pages where the system grants them, first touched by the threads that will use it.
#pragma once

#include <cstddef>

namespace roofbench::hardware {

class HugeBuffer {
 public:
  // Throws std::bad_alloc if the system refuses. Filled with pseudo-random bytes (never zeros: they draw less power) in
  // parallel by `threads` threads, split as RunStream splits it.
  HugeBuffer(std::size_t bytes, int threads);
  HugeBuffer() = default;
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;
  HugeBuffer(const HugeBuffer&) = delete;
  HugeBuffer& operator=(const HugeBuffer&) = delete;
  ~HugeBuffer();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace roofbench::hardware
