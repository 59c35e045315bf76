// SPDX-License-Identifier: Apache-2.0
// Products with 8-bit activations: LLM.int8(), and int4 weights.
//
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
#include <vector>

#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/simd/floats.h"
#include "lib/kernels/simd/streaming.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

inline constexpr float kInt8Largest = 127;

// CB [n, k] and SCB [n]: weight = round(w · 127 / row_max), row_max the largest magnitude of a row. k is at most
// 66,000: sums have 32 bits.
struct LlmInt8Weight {
  const int8_t* data = nullptr;
  const float* row_max = nullptr;
  int64_t n = 0;
  int64_t k = 0;
  float steps = kInt8Largest;  // w = data · row_max / steps: 1 where row_max holds scales
};

// Outlier columns with their neighbors: 16 columns of a weight's row are a vector, which takes less time to load than
// two of its elements.
struct OutlierGroups {
  static constexpr int64_t kColumns = 16;

  std::vector<int32_t> first;  // columns, ascending; a group ends within k if that has kColumns
  std::vector<float> x;        // [m, groups, kColumns], zeros for the neighbors
};

// The quantized rows of an x [m, k]. Its memory grows with x, and with the largest number of outlier columns so far.
class LlmInt8Activations {
 public:
  LlmInt8Activations() = default;
  // Reserves room for an x of this size, so that one with few outliers does not allocate.
  LlmInt8Activations(int64_t m, int64_t k);

  // Row maxima and outlier columns. Threshold 0: no outliers.
  void Select(const Bf16* x, int64_t m, int64_t k, float threshold, const ParallelFor& parallel_for);
  // Quantizes the rows and sums them, for the x of the last Select; with a `group`, a part of k, also sums each group
  // of columns.
  void Quantize(const Bf16* x, const ParallelFor& parallel_for, int64_t group = 0);

  int64_t m() const { return m_; }
  // The stride of quantized rows: it keeps them from sharing the same sets of a cache.
  int64_t stride() const { return stride_; }
  const int8_t* row(int64_t row) const { return lines_.data()->values + row * stride_; }  // zeros from k to stride
  const float* row_max() const { return row_max_.data(); }                                // [m]: SCA
  const int32_t* sums() const { return sums_.data(); }                                    // [m]: of a row
  int64_t group() const { return group_; }
  const float* group_sums() const { return group_sums_.data(); }  // [m, k / group], exact
  // Columns with an outlier in any row, ascending, and x in them: [m, as many].
  const std::vector<int32_t>& outliers() const { return outliers_; }
  const float* outlier_values() const { return outlier_values_.data(); }
  // The same where few rows are multiplied by a variant that sums outliers itself; otherwise empty.
  const OutlierGroups& outlier_groups() const { return outlier_groups_; }

 private:
  void Resize(int64_t m, int64_t k);
  // Of outliers_, for this x.
  void GroupOutliers(const Bf16* x);

  int64_t m_ = 0;
  int64_t k_ = 0;
  int64_t stride_ = 0;
  int64_t group_ = 0;
  float threshold_ = 0;
  std::vector<Line<int8_t>> lines_;
  std::vector<float> row_max_;
  std::vector<int32_t> sums_;
  std::vector<float> group_sums_;
  std::vector<uint8_t> is_outlier_;  // [k]
  std::vector<int32_t> outliers_;
  std::vector<float> outlier_values_;
  OutlierGroups outlier_groups_;
};

// The product y[m, n] = x · weightᵀ of the x in `activations`. Y: float or Bf16.
template <typename Weight, typename Y>
struct Int8ActivationProduct {
  Weight weight = {};
  const LlmInt8Activations* activations = nullptr;
  Y* y = nullptr;
};

template <typename Y>
using LlmInt8Product = Int8ActivationProduct<LlmInt8Weight, Y>;

// Activations with one scale per row, which were selected without a threshold and summed by the weight's group:
// integers are multiplied, and the sum of each group of columns is scaled into fp32,
//
//   y[i, j] = x_max[i] / 127 · Σ over g of (scale[j, g] · Σ q[j] · x[i] + (zero[j, g] - 8 · scale[j, g]) · Σ x[i]),
//
// both inner sums over the columns of group g. With few rows of x a tile is unpacked in registers; with many, two tiles
// at a time to bytes in a cache; the whole weight is never unpacked. A row's result does not depend on the other rows.
template <typename Y>
using Int4Product = Int8ActivationProduct<Int4Weight, Y>;

// Rows of a weight that are packed together where there are many rows of x.
inline constexpr int64_t kInt8PanelRows = 32;

// y[:, rows] alone, on the calling thread. For int4, rows begins with a tile.
template <typename Y>
void RunRows(const LlmInt8Product<Y>& work, Range rows);
template <typename Y>
void RunRows(const Int4Product<Y>& work, Range rows);
// The whole product.
template <typename Weight, typename Y>
void Run(const Int8ActivationProduct<Weight, Y>& work, const ParallelFor& parallel_for) {
  parallel_for(work.weight.n, kInt8PanelRows, [&](Range rows) { RunRows(work, rows); });
}

}  // namespace roofbench::kernels
