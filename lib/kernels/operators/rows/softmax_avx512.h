// SPDX-License-Identifier: Apache-2.0
// Softmax with AVX-512, for softmax.cc to choose.
#pragma once

#include "lib/kernels/operators/rows/softmax.h"

namespace roofbench::kernels {

// Need kAvx512Bf16.
void Avx512Share(const Softmax<float>& work, Range range);
void Avx512Share(const Softmax<Bf16>& work, Range range);

}  // namespace roofbench::kernels
