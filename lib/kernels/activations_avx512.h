// GELU and SiLU with AVX-512, for gelu.cc and silu_mul.cc to choose.
#pragma once

#include "lib/kernels/gelu.h"
#include "lib/kernels/silu_mul.h"

namespace roofbench::kernels {

// Need kAvx512Bf16.
void Avx512Part(const Gelu<float>& work, Range range);
void Avx512Part(const Gelu<Bf16>& work, Range range);
void Avx512Part(const SiluMul<float>& work, Range range);
void Avx512Part(const SiluMul<Bf16>& work, Range range);

}  // namespace roofbench::kernels
