// SPDX-License-Identifier: Apache-2.0
// How the weight matrix of a product y = W · x lies in memory. W is [n, k]: a row is an output.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/kernels/simd/bf16.h"

namespace roofbench::kernels {

// Row after row, without gaps.
template <typename T>
struct PlainWeight {
  const T* data = nullptr;  // [n, k]
  int64_t n = 0;
  int64_t k = 0;
};
using Fp32Weight = PlainWeight<float>;
using Bf16Weight = PlainWeight<Bf16>;

// w[i, j] = data[i, j] · scales[i]
struct Int8Weight {
  const int8_t* data = nullptr;   // [n, k]
  const float* scales = nullptr;  // [n]
  int64_t n = 0;
  int64_t k = 0;
};

// w[i, j] = (q[i, j] - 8) · scale[i, g] + zero[i, g], q in 0…15, g = j / group, scale and zero in bf16.
//
// Tiles of 16 rows lie one after another; a tile is its groups of columns one after another; a group is
//   16 words, one a row: scale in the lower half, zero in the upper;
//   group / 8 times 16 words, one a row: byte b of word j holds q[8j + b] in its lower and q[8j + 4 + b] in its upper
//   bits.
// So a product reads memory from front to back, and each 32-bit lane of a vector sums a row of its own. Rows beyond n
// in the last tile have scale and zero 0.
struct Int4Weight {
  const std::byte* data = nullptr;  // Int4Bytes(n, k, group) bytes, on a multiple of 64
  int64_t n = 0;
  int64_t k = 0;      // a multiple of group
  int64_t group = 0;  // 32, 64, 128 or 256
};

inline constexpr int64_t kInt4TileRows = 16;

constexpr int64_t Int4GroupBytes(int64_t group) { return 4 * kInt4TileRows + group / 2 * kInt4TileRows; }
constexpr int64_t Int4TileBytes(int64_t k, int64_t group) { return k / group * Int4GroupBytes(group); }
constexpr int64_t Int4Tiles(int64_t n) { return (n + kInt4TileRows - 1) / kInt4TileRows; }
constexpr int64_t Int4Bytes(int64_t n, int64_t k, int64_t group) { return Int4Tiles(n) * Int4TileBytes(k, group); }

}  // namespace roofbench::kernels
