// SPDX-License-Identifier: Apache-2.0
// Vectors rounded to 8 bits, which products of int8 (llm_int8.h) and int4 weights (int4_product.h) multiply. A row's
// result does not depend on the other rows, unless columns with outliers are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/simd/streaming.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

inline constexpr float kInt8Largest = 127;

// Outlier columns with their neighbors: 16 columns of a weight's row are a vector, which takes less time to load than
// two of its elements.
struct OutlierGroups {
  static constexpr int64_t kColumns = 16;

  std::vector<int32_t> first;  // columns, ascending; a group ends within k if that has kColumns
  std::vector<float> x;        // [m, groups, kColumns], zeros for the neighbors
};

// The quantized rows of an x [m, k]. Its memory grows with x, and with the largest number of outlier columns so far.
class Int8Activations {
 public:
  Int8Activations() = default;
  // Reserves room for an x of this size, so that one with few outliers does not allocate.
  Int8Activations(int64_t m, int64_t k);

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
  // The rows as the columns of tiles (PackTileColumns, or PackFewColumns), where the variant takes tiles for m rows,
  // unless groups are summed.
  const std::byte* tile_columns() const { return tile_columns_.data()->values; }
  const int32_t* sums() const { return sums_.data(); }  // [m]: of a row
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
  std::vector<Line<std::byte>> tile_columns_;
  std::vector<float> row_max_;
  std::vector<int32_t> sums_;
  std::vector<float> group_sums_;
  std::vector<uint64_t> outlier_bits_;  // one for each column (Int8Variant::largest)
  std::vector<int32_t> outliers_;
  std::vector<float> outlier_values_;
  OutlierGroups outlier_groups_;
};

// The product y[m, n] = x · weightᵀ of the x in `activations`. Y: float or Bf16. RunRows(work, rows) computes y[:,
// rows] alone, on the calling thread.
template <typename Weight, typename Y>
struct Int8ActivationProduct {
  Weight weight = {};
  const Int8Activations* activations = nullptr;
  Y* y = nullptr;
};

// Rows of a weight that are packed together where there are many rows of x.
inline constexpr int64_t kInt8PanelRows = 32;

// The whole product.
template <typename Weight, typename Y>
void Run(const Int8ActivationProduct<Weight, Y>& work, const ParallelFor& parallel_for) {
  parallel_for(work.weight.n, kInt8PanelRows, [&](Range rows) { RunRows(work, rows); });
}

}  // namespace roofbench::kernels
