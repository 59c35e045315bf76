// SPDX-License-Identifier: Apache-2.0
// The choice of results whose stores bypass the caches.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {

inline constexpr int64_t kLineBytes = 64;

// A cache line, and memory aligned to one: a vector that crosses two takes two loads.
template <typename T>
struct alignas(kLineBytes) Line {
  T values[kLineBytes / sizeof(T)];
};

// A plain store first reads the line that it writes, which adds as much traffic as the write itself; a streaming
// store does not, but the next reader has to read from memory. Results from this size on would leave the caches anyway.
inline constexpr int64_t kStreamBytes = int64_t{4} << 20;

inline bool IsLineAligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % kLineBytes == 0; }

// Whether the rows of a result should be streamed: it is large, and each row begins with a cache line.
template <typename T>
bool StreamsRows(const T* y, int64_t rows, int64_t cols) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  return rows * cols * kBytes >= kStreamBytes && IsLineAligned(y) && cols * kBytes % kLineBytes == 0;
}

}  // namespace roofbench::kernels
