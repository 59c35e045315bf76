// SPDX-License-Identifier: Apache-2.0
// GELU and SiLU with AVX-512, for gelu.cc and silu_mul.cc to choose.
#pragma once

#include "lib/kernels/operators/elementwise/gelu.h"
#include "lib/kernels/operators/elementwise/silu_mul.h"

namespace roofbench::kernels {

// Need kAvx512Bf16.
void Avx512Share(const Gelu<float>& work, Range range);
void Avx512Share(const Gelu<Bf16>& work, Range range);
void Avx512Share(const SiluMul<float>& work, Range range);
void Avx512Share(const SiluMul<Bf16>& work, Range range);
void Avx512Share(const SiluMul<float, Bf16>& work, Range range);

}  // namespace roofbench::kernels
