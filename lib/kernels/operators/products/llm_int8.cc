// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/llm_int8.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/kernels/operators/products/llm_int8_avx512.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

constexpr float kLargest = 127;

// Finite, for the reciprocal of a subnormal number is not, and 0 times infinity is no number.
float Inverse(float row_max) {
  return row_max > 0 ? std::min(kLargest / row_max, std::numeric_limits<float>::max()) : 0;
}

// What no integer is comes to one at the edge: infinities and NaNs, whose product with the row's scale is none either.
int8_t Rounded(float value) {
  if (!(value > -kLargest)) return static_cast<int8_t>(-kLargest);
  return static_cast<int8_t>(std::nearbyint(std::min(value, kLargest)));
}

// The largest magnitude below `threshold` (0: of all).
float LargestOf(const Bf16* x, int64_t k, float threshold) {
  float largest = 0;
  for (int64_t i = 0; i < k; ++i) {
    const float magnitude = std::abs(ToFloat(x[i]));
    if (threshold <= 0 || magnitude < threshold) largest = std::max(largest, magnitude);
  }
  return largest;
}

// Appends the columns in which any of the rows reaches `threshold`; returns how many there are.
int64_t ColumnsOf(const Bf16* x, int64_t m, int64_t k, float threshold, int32_t* columns) {
  int64_t count = 0;
  for (int64_t i = 0; i < k; ++i) {
    bool any = false;
    for (int64_t row = 0; row < m; ++row) any = any || std::abs(ToFloat(x[row * k + i])) >= threshold;
    if (any) columns[count++] = static_cast<int32_t>(i);
  }
  return count;
}

// round(x · inverse) where |x| is below `threshold` (0: everywhere), 0 elsewhere; returns the sum.
int32_t Quantise(const Bf16* x, int64_t k, float threshold, float inverse, int8_t* to) {
  int32_t sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    const float value = ToFloat(x[i]);
    const bool is_below = threshold > 0 ? std::abs(value) < threshold : !std::isnan(value);
    to[i] = is_below ? Rounded(value * inverse) : int8_t{0};
    sum += to[i];
  }
  return sum;
}

int32_t Dot(const int8_t* w, const int8_t* x, int64_t k, int32_t /*sum_of_x*/) {
  int32_t sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += int32_t{w[i]} * x[i];
  return sum;
}

struct Steps {
  decltype(&LargestOf) largest_of;
  decltype(&ColumnsOf) columns_of;
  decltype(&Quantise) quantise;
  decltype(&Dot) dot;
};
constexpr IsaRow<Steps> kWays[] = {
#if ROOFBENCH_X86
    {kAvx512Vnni, {avx512::LargestOf, avx512::ColumnsOf, avx512::Quantise, avx512::Dot}},
#endif
    {0, {LargestOf, ColumnsOf, Quantise, Dot}},
};

}  // namespace

void SelectOutliers(const Bf16* x, int64_t m, int64_t k, float threshold, LlmInt8Activations& to) {
  const Steps& steps = BestWay<kWays>();
  to.outlier_count = threshold > 0 ? steps.columns_of(x, m, k, threshold, to.outliers) : 0;
  for (int64_t row = 0; row < m; ++row) to.row_max[row] = steps.largest_of(x + row * k, k, threshold);
}

void QuantiseActivations(const Bf16* x, int64_t m, int64_t k, float threshold, LlmInt8Activations& to) {
  const auto quantise = BestWay<kWays>().quantise;
  for (int64_t row = 0; row < m; ++row) {
    int8_t* const quantised = to.quantised + row * k;
    to.sums[row] = quantise(x + row * k, k, threshold, Inverse(to.row_max[row]), quantised);
    for (int64_t i = 0; i < to.outlier_count; ++i) {
      int8_t& value = quantised[to.outliers[i]];
      to.sums[row] -= value;
      value = 0;
    }
  }
}

void MultiplyRows(const LlmInt8Product& work, Range rows) {
  const int64_t k = work.weight.k;
  const auto dot = BestWay<kWays>().dot;
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const int8_t* const w = work.weight.data + n * k;
    for (int64_t row = 0; row < work.m; ++row) {
      const int8_t* const quantised = work.activations->quantised + row * k;
      work.products[row * work.weight.n + n] = dot(w, quantised, k, work.activations->sums[row]);
    }
  }
}

void DequantiseRows(const LlmInt8Product& work, Range rows) {
  for (int64_t row = 0; row < work.m; ++row) {
    const float scale = work.activations->row_max[row] / (kLargest * kLargest);
    for (int64_t n = rows.begin; n < rows.end; ++n) {
      const int64_t at = row * work.weight.n + n;
      work.y[at] = static_cast<float>(work.products[at]) * (scale * work.weight.row_max[n]);
    }
  }
}

void AddOutliers(const LlmInt8Product& work, Range rows) {
  const LlmInt8Activations& activations = *work.activations;
  const int64_t k = work.weight.k;
  if (activations.outlier_count == 0) return;
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const int8_t* const w = work.weight.data + n * k;
    const float scale = work.weight.row_max[n] / kLargest;
    for (int64_t row = 0; row < work.m; ++row) {
      float sum = 0;
      for (int64_t i = 0; i < activations.outlier_count; ++i) {
        const int32_t column = activations.outliers[i];
        sum += ToFloat(work.x[row * k + column]) * static_cast<float>(w[column]);
      }
      work.y[row * work.weight.n + n] += sum * scale;
    }
  }
}

}  // namespace roofbench::kernels
