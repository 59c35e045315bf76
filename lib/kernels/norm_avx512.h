// The norms with AVX-512, for norm.cc to choose.
#pragma once

#include "lib/kernels/norm.h"

namespace roofbench::kernels::avx512 {

// Normalise the rows of `range`, with a weight (and a bias). Need kAvx512Bf16.
void NormRows(const LayerNorm<float>& work, Range range);
void NormRows(const LayerNorm<Bf16>& work, Range range);
void NormRows(const RmsNorm<float>& work, Range range);
void NormRows(const RmsNorm<Bf16>& work, Range range);

}  // namespace roofbench::kernels::avx512
