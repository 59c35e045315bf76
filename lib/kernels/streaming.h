// When a result goes past the caches, straight to memory.
#pragma once

#include <cstdint>

#include "lib/kernels/isa.h"

namespace roofbench::kernels {

inline constexpr int64_t kLineBytes = 64;

// A plain store first reads the line that it writes, which costs half of a result's traffic again; a streaming store
// does not, but the next reader has to go to memory. Results from this size on would leave the caches anyway.
inline constexpr int64_t kStreamBytes = int64_t{4} << 20;

inline bool IsLineAligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % kLineBytes == 0; }

// Whether rows of `row_bytes`, `stride_bytes` apart, should be streamed: large, and each begins with a cache line.
inline bool StreamsRows(const void* y, int64_t rows, int64_t row_bytes, int64_t stride_bytes) {
  return rows * row_bytes >= kStreamBytes && IsLineAligned(y) && stride_bytes % kLineBytes == 0;
}

}  // namespace roofbench::kernels
