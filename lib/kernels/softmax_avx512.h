// Softmax with AVX-512, for softmax.cc to choose.
#pragma once

#include "lib/kernels/softmax.h"

namespace roofbench::kernels {

// Need kAvx512Bf16.
void Avx512Part(const Softmax<float>& work, Range range);
void Avx512Part(const Softmax<Bf16>& work, Range range);

}  // namespace roofbench::kernels
