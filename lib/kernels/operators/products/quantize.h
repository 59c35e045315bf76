// SPDX-License-Identifier: Apache-2.0
// Weight-only quantization: a matrix in fp32 or bf16 becomes 8 or 4 bits a weight with scales.
//
// All functions work on a range of rows, so that a caller can spread them over threads and stream a model layer by
// layer. T: float or Bf16. Weights must be finite.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Per row: scale = max|w| / 127.5, at least fp32's epsilon; q = w / scale, rounded to nearest even and clamped to
// -128…127 (gpt-fast's symmetric per-channel scheme).
template <typename T>
void QuantizeInt8(const T* weight, int64_t k, int8_t* quantized, float* scales, Range rows);

// Per group of `group` weights of a row: scale = (max - min) / 15, zero = min + 8 · scale, both rounded to bf16, then
// q = (w - (zero - 8 · scale)) / scale, rounded to nearest even and clamped to 0…15 (gpt-fast's asymmetric scheme).
// q [n, k] and scales_zeros [n, k / group, 2] in the plain order.
template <typename T>
void QuantizeInt4(const T* weight, int64_t k, int64_t group, uint8_t* quantized, Bf16* scales_zeros, Range rows);

// Brings tiles [tiles.begin, tiles.end) of Int4Weight's layout into `packed`, which holds the whole matrix of n rows.
void PackInt4(const uint8_t* quantized, const Bf16* scales_zeros, int64_t n, int64_t k, int64_t group,
              std::byte* packed, Range tiles);

// The weight that a product sees.
float Dequantize(const Int8Weight& weight, int64_t row, int64_t column);
float Dequantize(const Int4Weight& weight, int64_t row, int64_t column);

}  // namespace roofbench::kernels
