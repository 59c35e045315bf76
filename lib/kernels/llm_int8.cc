#include "lib/kernels/llm_int8.h"

#include <algorithm>
#include <cmath>

#include "lib/kernels/isa.h"
#include "lib/kernels/llm_int8_avx512.h"

namespace roofbench::kernels {
namespace {

constexpr float kLargest = 127;

float Inverse(float row_max) { return row_max > 0 ? kLargest / row_max : 0; }

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
    const bool is_outlier = threshold > 0 && std::abs(value) >= threshold;
    to[i] = is_outlier ? int8_t{0} : static_cast<int8_t>(std::nearbyint(value * inverse));
    sum += to[i];
  }
  return sum;
}

int32_t Dot(const int8_t* w, const int8_t* x, int64_t k) {
  int32_t sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += int32_t{w[i]} * x[i];
  return sum;
}

}  // namespace

void SelectOutliers(const Bf16* x, int64_t m, int64_t k, float threshold, LlmInt8Activations& to) {
  auto* largest_of = LargestOf;
  auto* columns_of = ColumnsOf;
#if ROOFBENCH_X86
  if (IsaHas(kAvx512Vnni)) {
    largest_of = avx512::LargestOf;
    columns_of = avx512::ColumnsOf;
  }
#endif
  to.outlier_count = threshold > 0 ? columns_of(x, m, k, threshold, to.outliers) : 0;
  for (int64_t row = 0; row < m; ++row) to.row_max[row] = largest_of(x + row * k, k, threshold);
}

void QuantiseActivations(const Bf16* x, int64_t m, int64_t k, float threshold, LlmInt8Activations& to) {
  auto* quantise = Quantise;
#if ROOFBENCH_X86
  if (IsaHas(kAvx512Vnni)) quantise = avx512::Quantise;
#endif
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
#if ROOFBENCH_X86
  const bool vnni = IsaHas(kAvx512Vnni);
#endif
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const int8_t* const w = work.weight.data + n * k;
    for (int64_t row = 0; row < work.m; ++row) {
      const int8_t* const quantised = work.activations->quantised + row * k;
      int32_t& product = work.products[row * work.weight.n + n];
#if ROOFBENCH_X86
      if (vnni) {
        product = avx512::Dot(w, quantised, k, work.activations->sums[row]);
        continue;
      }
#endif
      product = Dot(w, quantised, k);
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
