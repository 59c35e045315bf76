// The norms with AVX-512, for norm.cc to choose.
#pragma once

#include "lib/kernels/norm.h"

namespace roofbench::kernels {

// Normalise the rows of `range`, with a weight (and a bias). Need kAvx512Bf16.
void Avx512Part(const LayerNorm<float>& work, Range range);
void Avx512Part(const LayerNorm<Bf16>& work, Range range);
void Avx512Part(const RmsNorm<float>& work, Range range);
void Avx512Part(const RmsNorm<Bf16>& work, Range range);

}  // namespace roofbench::kernels
