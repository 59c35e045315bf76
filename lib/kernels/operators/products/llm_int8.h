// SPDX-License-Identifier: Apache-2.0
// LLM.int8() for a few tokens (Dettmers et al., arXiv:2208.07339): y = (rows · columns in int8) + outlier columns in
// bf16.
//
// The steps of bitsandbytes, in the same arithmetic: SCA[m] = max |x| below the threshold of row m, CA = round(x · 127
// / SCA), columns with an outlier in any row 0; y = CA · CBᵀ · SCA · SCB / 127² + x[:, outliers] · (CB[:, outliers] ·
// SCB / 127)ᵀ. Each step is a function, so that it can be timed.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/bf16.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// CB [n, k] and SCB [n]: weight = round(w · 127 / row_max), row_max the largest magnitude of a row.
struct LlmInt8Weight {
  const int8_t* data = nullptr;
  const float* row_max = nullptr;
  int64_t n = 0;
  int64_t k = 0;
};

// The quantised rows of x, in memory that the caller brings.
struct LlmInt8Activations {
  int8_t* quantised = nullptr;  // [m, k]
  float* row_max = nullptr;     // [m]: SCA
  int32_t* sums = nullptr;      // [m]: of the quantised values of a row
  int32_t* outliers = nullptr;  // [k]: the columns with an outlier, ascending
  int64_t outlier_count = 0;
};

// Outlier columns and row maxima of x [m, k], on the calling thread. Threshold 0: nothing is an outlier.
void SelectOutliers(const Bf16* x, int64_t m, int64_t k, float threshold, LlmInt8Activations& to);
// Quantised rows and their sums, after SelectOutliers with the same arguments.
void QuantiseActivations(const Bf16* x, int64_t m, int64_t k, float threshold, LlmInt8Activations& to);

// y[m, n] = x · weightᵀ.
struct LlmInt8Product {
  LlmInt8Weight weight = {};
  const LlmInt8Activations* activations = nullptr;  // of x
  const Bf16* x = nullptr;                          // [m, k], for the outliers
  int64_t m = 0;
  int32_t* products = nullptr;  // [m, n]: what MultiplyRows leaves for DequantiseRows
  float* y = nullptr;
};

// The three steps for the rows of the weight in `rows`, on the calling thread, in this order.
void MultiplyRows(const LlmInt8Product& work, Range rows);
void DequantiseRows(const LlmInt8Product& work, Range rows);
void AddOutliers(const LlmInt8Product& work, Range rows);

}  // namespace roofbench::kernels
