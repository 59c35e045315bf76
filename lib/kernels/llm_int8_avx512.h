// The int8 products of LLM.int8() with 8-bit dot products, for llm_int8.cc to choose.
#pragma once

#include <cstdint>

namespace roofbench::kernels::avx512 {

// Σ w[i] · x[i] over k elements; `sum` is Σ x[i]. Needs kAvx512Vnni.
int32_t Dot(const int8_t* w, const int8_t* x, int64_t k, int32_t sum);

}  // namespace roofbench::kernels::avx512
