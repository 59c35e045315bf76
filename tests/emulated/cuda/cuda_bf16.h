// SPDX-License-Identifier: Apache-2.0
// bf16 of CUDA C++, as far as our kernels need it, for a C++ compiler.
#pragma once

#include <cmath>

#include "tests/emulated/cuda/cuda_runtime.h"

struct __nv_bfloat16 {
  unsigned short bits;
};

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline float __bfloat162float(__nv_bfloat16 value) { return __uint_as_float(static_cast<unsigned>(value.bits) << 16); }

// To nearest, ties to even.
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  if (std::isnan(value)) return {0x7fff};
  const unsigned bits = __float_as_uint(value);
  return {static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
