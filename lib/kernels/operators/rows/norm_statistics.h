// SPDX-License-Identifier: Apache-2.0
// From the sums over a row to what its elements are normalized by.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace roofbench::kernels {

// (x - mean - mean_low) · rstd: the mean in two parts, because where it is far larger than the deviation its rounding
// alone would show.
struct RowStatistics {
  float mean = 0;
  float mean_low = 0;
  float rstd = 0;
};

// Below this share of the mean square, a variance from a sum and a sum of squares has lost too many digits.
inline constexpr float kCancelled = 1.0F / 16;

inline bool Cancels(float sum, float squares, int64_t n) {
  const float mean = sum / static_cast<float>(n);
  const float mean_square = squares / static_cast<float>(n);
  // False for NaN, which a second look would not cure.
  return mean_square - mean * mean < kCancelled * mean_square;
}

inline float Rstd(float variance, float eps) { return 1 / std::sqrt(variance + eps); }

inline RowStatistics RmsStatistics(float squares, int64_t n, float eps) {
  return {.rstd = Rstd(squares / static_cast<float>(n), eps)};
}

// Sums of x and x².
inline RowStatistics LayerStatistics(float sum, float squares, int64_t n, float eps) {
  const float mean = sum / static_cast<float>(n);
  const float variance = squares / static_cast<float>(n) - mean * mean;
  // Not std::max, which would turn a NaN into 0.
  return {.mean = mean, .rstd = Rstd(variance < 0 ? 0 : variance, eps)};
}

// Sums of (x - pivot) and (x - pivot)², for a pivot near the mean.
inline RowStatistics LayerStatisticsAbout(float pivot, float sum, float squares, int64_t n, float eps) {
  const float low = sum / static_cast<float>(n);
  const float variance = squares / static_cast<float>(n) - low * low;
  return {.mean = pivot, .mean_low = low, .rstd = Rstd(variance < 0 ? 0 : variance, eps)};
}

}  // namespace roofbench::kernels
