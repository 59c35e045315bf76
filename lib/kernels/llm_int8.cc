#include "lib/kernels/llm_int8.h"

#include <algorithm>
#include <cmath>

#include "lib/kernels/isa.h"
#include "lib/kernels/llm_int8_avx512.h"

namespace roofbench::kernels {
namespace {

constexpr float kLargest = 127;

int32_t Dot(const int8_t* w, const int8_t* x, int64_t k) {
  int32_t sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += int32_t{w[i]} * x[i];
  return sum;
}

}  // namespace

void QuantiseActivations(const Bf16* x, int64_t m, int64_t k, float threshold, LlmInt8Activations& to) {
  const bool decomposes = threshold > 0;
  const auto is_outlier = [&](float value) { return decomposes && std::abs(value) >= threshold; };
  to.outlier_count = 0;
  for (int64_t i = 0; decomposes && i < k; ++i) {
    bool any = false;
    for (int64_t row = 0; row < m; ++row) any = any || is_outlier(ToFloat(x[row * k + i]));
    if (any) to.outliers[to.outlier_count++] = static_cast<int32_t>(i);
  }
  for (int64_t row = 0; row < m; ++row) {
    float largest = 0;
    for (int64_t i = 0; i < k; ++i) {
      const float magnitude = std::abs(ToFloat(x[row * k + i]));
      largest = decomposes && magnitude >= threshold ? largest : std::max(largest, magnitude);
    }
    to.row_max[row] = largest;
    const float inverse = largest > 0 ? kLargest / largest : 0;
    int8_t* const quantised = to.quantised + row * k;
    for (int64_t i = 0; i < k; ++i) {
      const float value = ToFloat(x[row * k + i]);
      quantised[i] = is_outlier(value) ? int8_t{0} : static_cast<int8_t>(std::nearbyint(value * inverse));
    }
    for (int64_t i = 0; i < to.outlier_count; ++i) quantised[to.outliers[i]] = 0;
    int32_t sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += quantised[i];
    to.sums[row] = sum;
  }
}

void RunRows(const LlmInt8Weight& weight, const LlmInt8Activations& activations, const Bf16* x, int64_t m, float* y,
             Range rows) {
  const int64_t k = weight.k;
  const bool vnni = IsaHas(kAvx512Vnni);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const int8_t* const w = weight.data + n * k;
    for (int64_t row = 0; row < m; ++row) {
      const int8_t* const quantised = activations.quantised + row * k;
      int32_t product = 0;
#if ROOFBENCH_X86
      product = vnni ? avx512::Dot(w, quantised, k, activations.sums[row]) : Dot(w, quantised, k);
#else
      product = Dot(w, quantised, k);
#endif
      const float scale = weight.row_max[n] / kLargest;
      float sum = static_cast<float>(product) * (activations.row_max[row] / kLargest) * scale;
      for (int64_t i = 0; i < activations.outlier_count; ++i) {
        const int32_t column = activations.outliers[i];
        sum += ToFloat(x[row * k + column]) * static_cast<float>(w[column]) * scale;
      }
      y[row * weight.n + n] = sum;
    }
  }
}

}  // namespace roofbench::kernels
