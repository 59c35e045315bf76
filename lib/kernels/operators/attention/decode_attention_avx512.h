// SPDX-License-Identifier: Apache-2.0
// The bf16 decode attention with AVX-512, for decode_attention.cc to choose.
#pragma once

#include "lib/kernels/operators/attention/attended_part.h"
#include "lib/kernels/operators/attention/decode_attention.h"

namespace roofbench::kernels::avx512 {

// Needs kAvx512Bf16, and head_dim a multiple of 32.
void AttendKeys(const DecodeAttention<Bf16>& work, int64_t head, Range keys, AttendedPart to);

}  // namespace roofbench::kernels::avx512
