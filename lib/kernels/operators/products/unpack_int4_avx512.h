// SPDX-License-Identifier: Apache-2.0
// Unpacking int4 with AVX-512, for unpack_int4.cc to choose. Needs kAvx512Bf16.
#pragma once

#include "lib/kernels/operators/products/unpack_int4.h"

namespace roofbench::kernels::avx512 {

void UnpackInt4(const Int4Weight& weight, Range tiles, Bf16* to);

}  // namespace roofbench::kernels::avx512
