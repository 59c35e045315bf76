// SPDX-License-Identifier: Apache-2.0
// A linear layer in 4 bits as GPTQ and AWQ publish it, brought into the order of rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/models/checkpoint/quantization_config.h"

namespace roofbench::models {

// w[i, j] = (codes[i, j] - zeros[i, j / group]) · scales[i, j / group], group = columns / groups
struct PackedRows {
  at::Tensor codes;   // uint8 [rows, columns], 0…15
  at::Tensor scales;  // fp32 [rows, groups]
  at::Tensor zeros;   // fp32 [rows, groups], whole numbers

  // [rows, columns] in fp32, which holds the products of stored scales in 16 bits exactly.
  at::Tensor Dequantised() const;
};

// The tensors of a layer [rows, columns] as the files hold them, where a row of the layer is a column.
struct PackedLayer {
  PackedFormat format = {};
  at::Tensor qweight = {};  // int32, GPTQ: [columns / 8, rows], AWQ: [columns, rows / 8]
  at::Tensor qzeros = {};   // int32 [groups, rows / 8]
  at::Tensor scales = {};   // floating point [groups, rows]

  int64_t rows() const { return scales.size(1); }
  int64_t columns() const;
  // `count` rows from `first` on, both multiples of 8.
  PackedRows Rows(int64_t first, int64_t count) const;
};

// Codes in a word of 32 bits.
inline constexpr int64_t kCodesPerWord = 8;

}  // namespace roofbench::models
