// SPDX-License-Identifier: Apache-2.0
// Memory for kernels that ends the test program at an access beyond it.
#pragma once

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <span>
#include <utility>

namespace roofbench::emulated {

// Zeros between two pages that nothing may access. Memory that is never touched costs nothing: an operand may be larger
// than the machine's memory. Throws std::bad_alloc.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t bytes);
  GuardedMemory(GuardedMemory&& other) noexcept
      : pages_(std::exchange(other.pages_, nullptr)), pages_bytes_(other.pages_bytes_), data_(other.data_) {}
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  ~GuardedMemory();

  // Aligned to 16 bytes. The bytes between its end and the next page, fewer than 16, are 0xff: NaN, where they are
  // read as numbers.
  std::byte* data() const { return data_; }

 private:
  std::byte* pages_;
  std::size_t pages_bytes_;
  std::byte* data_;
};

template <typename T>
class Operand {
 public:
  using value_type = T;

  explicit Operand(std::size_t size) : memory_(size * sizeof(T)), size_(size) {}
  Operand(std::initializer_list<T> values) : Operand(std::span<const T>(values.begin(), values.size())) {}
  explicit Operand(std::span<const T> values) : Operand(values.size()) {
    std::memcpy(data(), values.data(), values.size_bytes());
  }

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::size_t size() const { return size_; }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  T& operator[](std::size_t i) const { return data()[i]; }

 private:
  GuardedMemory memory_;
  std::size_t size_;
};

}  // namespace roofbench::emulated
