// SPDX-License-Identifier: Apache-2.0
// The norms with AVX-512, for norm.cc to choose.
#pragma once

#include "lib/kernels/operators/rows/norm.h"

namespace roofbench::kernels {

// Normalize the rows of `range`, with a weight (and a bias). Need kAvx512Bf16.
void Avx512Share(const LayerNorm<float>& work, Range range);
void Avx512Share(const LayerNorm<Bf16>& work, Range range);
void Avx512Share(const RmsNorm<float>& work, Range range);
void Avx512Share(const RmsNorm<Bf16>& work, Range range);
void Avx512Share(const RmsNorm<float, Bf16>& work, Range range);

}  // namespace roofbench::kernels
