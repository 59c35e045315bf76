// Softmax with AVX-512, for softmax.cc to choose.
#pragma once

#include "lib/kernels/softmax.h"

namespace roofbench::kernels::avx512 {

// Need kAvx512Bf16.
void SoftmaxRows(const Softmax<float>& work, Range range);
void SoftmaxRows(const Softmax<Bf16>& work, Range range);

}  // namespace roofbench::kernels::avx512
