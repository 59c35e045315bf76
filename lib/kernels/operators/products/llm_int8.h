// SPDX-License-Identifier: Apache-2.0
// LLM.int8() (Dettmers et al., arXiv:2208.07339): y = (rows · columns in int8) + outlier columns in fp32, for one token
// as for a prompt.
//
// The steps of bitsandbytes, in the same arithmetic: SCA[m] = max |x| below the threshold of row m, CA = round(x · 127
// / SCA), columns with an outlier in any row 0; y = CA · CBᵀ · SCA · SCB / 127² + x[:, outliers] · (CB[:, outliers] ·
// SCB / 127)ᵀ. Statistics and quantized rows have separate functions, because threads share them and they can be timed;
// the product is dequantized and gets its outliers a block at a time, while the block lies in a cache.
//
// Without a threshold it is the product of any int8 weight with 8-bit activations, each row of which has its own scale:
// a row's result does not depend on the other rows.
#pragma once

#include <cstdint>

#include "lib/kernels/operators/products/int8_activations.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// CB [n, k] and SCB [n]: weight = round(w · 127 / row_max), row_max the largest magnitude of a row. k is at most
// 66,000: sums have 32 bits.
struct LlmInt8Weight {
  const int8_t* data = nullptr;
  const float* row_max = nullptr;
  int64_t n = 0;
  int64_t k = 0;
  float steps = kInt8Largest;  // w = data · row_max / steps: 1 where row_max holds scales
};

template <typename Y>
using LlmInt8Product = Int8ActivationProduct<LlmInt8Weight, Y>;

template <typename Y>
void RunRows(const LlmInt8Product<Y>& work, Range rows);

}  // namespace roofbench::kernels
