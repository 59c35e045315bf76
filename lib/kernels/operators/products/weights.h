// SPDX-License-Identifier: Apache-2.0
// The memory layout of the weight matrix of a product y = W · x, its quantization and unpacking. W is [n, k]: a row is
// an output.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

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
//   16 words, one per row: scale in the lower half, zero in the upper;
//   group / 8 times 16 words, one per row: byte b of word j holds q[8j + b] in its lower and q[8j + 4 + b] in its upper
//   bits.
// So a product reads memory from front to back, and each 32-bit lane of a vector sums one row. Rows beyond n in the
// last tile have scale and zero 0.
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

// Weight-only quantization: a matrix in fp32 or bf16 becomes 8 or 4 bits per weight with scales.
//
// All functions work on a range of rows, so that a caller can spread them over threads and stream a model layer by
// layer. T: float or Bf16. Weights must be finite.

// Per row: scale = max|w| / 127.5, at least fp32's epsilon; q = w / scale, rounded to nearest even and clamped to
// -128…127 (gpt-fast's symmetric per-channel scheme).
template <typename T>
void QuantizeInt8(const T* weight, int64_t k, int8_t* quantized, float* scales, Range rows);

// Per group of `group` weights of a row: scale = (max - min) / 15, zero = min + 8 · scale, both rounded to bf16, then
// q = (w - (zero - 8 · scale)) / scale, rounded to nearest even and clamped to 0…15 (gpt-fast's asymmetric scheme).
// q [n, k] and scales_zeros [n, k / group, 2] in the plain order.
template <typename T>
void QuantizeInt4(const T* weight, int64_t k, int64_t group, uint8_t* quantized, Bf16* scales_zeros, Range rows);

// Writes tiles [tiles.begin, tiles.end) of Int4Weight's layout into `packed`, which holds the whole matrix of n rows.
void PackInt4(const uint8_t* quantized, const Bf16* scales_zeros, int64_t n, int64_t k, int64_t group,
              std::byte* packed, Range tiles);

// The weight as a product takes it.
float Dequantize(const Int8Weight& weight, int64_t row, int64_t column);
float Dequantize(const Int4Weight& weight, int64_t row, int64_t column);

// Unpacks int4 tiles to plain rows, for products with more vectors than Gemv is meant for.

// Rows of tiles [tiles.begin, tiles.end), one after another: to[(row - 16 · tiles.begin) · k + j] = w[row, j], on the
// calling thread. Tiles are whole, even beyond weight.n. T: float or Bf16.
void UnpackInt4(const Int4Weight& weight, Range tiles, float* to);
void UnpackInt4(const Int4Weight& weight, Range tiles, Bf16* to);

// Columns of a tile, which begin and end with groups: w[16 · tile + r, columns.begin + 32 · i + j] is to[r · row_stride
// + i · block_stride + j].
void UnpackInt4Columns(const Int4Weight& weight, int64_t tile, Range columns, Bf16* to, int64_t row_stride,
                       int64_t block_stride);

}  // namespace roofbench::kernels
