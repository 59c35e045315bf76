// SPDX-License-Identifier: Apache-2.0
// What LibTorch's product of int8 weights with 16-bit vectors, at::_weight_int8pack_mm, asks for without checking it.
#pragma once

#include <cstdint>

namespace roofbench {

// It reads 16 columns at a time, without a look at the end of a row, by loads that end the process where an address is
// no multiple of the alignment.
inline constexpr int64_t kPackedInt8Columns = 16;
inline constexpr int64_t kPackedInt8Alignment = 2 * kPackedInt8Columns;  // of the vectors, in bytes

constexpr bool IsPackedInt8Width(int64_t columns) { return columns % kPackedInt8Columns == 0; }

}  // namespace roofbench
