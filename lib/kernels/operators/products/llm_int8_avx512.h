// SPDX-License-Identifier: Apache-2.0
// The steps of LLM.int8() with AVX-512 and its 8-bit dot products, for llm_int8.cc to choose. All need kAvx512Vnni.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/bf16.h"

namespace roofbench::kernels::avx512 {

// Σ w[i] · x[i] over k elements; `sum` is Σ x[i].
int32_t Dot(const int8_t* w, const int8_t* x, int64_t k, int32_t sum);

// As the functions of these names in llm_int8.cc.
float LargestOf(const Bf16* x, int64_t k, float threshold);
int64_t ColumnsOf(const Bf16* x, int64_t m, int64_t k, float threshold, int32_t* columns);
int32_t Quantise(const Bf16* x, int64_t k, float threshold, float inverse, int8_t* to);

}  // namespace roofbench::kernels::avx512
