// GELU and SiLU with AVX-512, for gelu.cc and silu_mul.cc to choose.
#pragma once

#include "lib/kernels/gelu.h"
#include "lib/kernels/silu_mul.h"

namespace roofbench::kernels::avx512 {

// Need kAvx512Bf16.
void GeluPart(const Gelu<float>& work, Range range);
void GeluPart(const Gelu<Bf16>& work, Range range);
void SiluMulPart(const SiluMul<float>& work, Range range);
void SiluMulPart(const SiluMul<Bf16>& work, Range range);

}  // namespace roofbench::kernels::avx512
