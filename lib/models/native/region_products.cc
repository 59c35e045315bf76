// SPDX-License-Identifier: Apache-2.0
#include "lib/models/native/region_products.h"

#include <algorithm>
#include <cstddef>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/products/gemv.h"

namespace roofbench::models {
namespace {

using kernels::Bf16;
using kernels::Range;
using kernels::Worker;
using workload::WeightFormat;

std::size_t Size(int64_t elements) { return static_cast<std::size_t>(elements); }

// The matrix of an expert in its format's layout.
template <typename T>
kernels::PlainWeight<T> PlainWeightOf(const StoredMatrix& matrix, int64_t expert) {
  return {Elements<T>(matrix.weight) + expert * matrix.rows * matrix.columns, matrix.rows, matrix.columns};
}
kernels::Int8Weight Int8WeightOf(const StoredMatrix& matrix, int64_t expert) {
  const int64_t first = expert * matrix.rows;
  return {Elements<int8_t>(matrix.weight) + first * matrix.columns, Elements<float>(matrix.scale) + first, matrix.rows,
          matrix.columns};
}
kernels::Int4Weight Int4WeightOf(const StoredMatrix& matrix, int64_t expert) {
  const int64_t bytes = kernels::Int4Bytes(matrix.rows, matrix.columns, matrix.group);
  return {reinterpret_cast<std::byte*>(Elements<uint8_t>(matrix.weight)) + expert * bytes, matrix.rows, matrix.columns,
          matrix.group};
}

template <typename Weight, typename T>
void MultiplyRows(const Weight& weight, const RegionProduct<T>& work, Range rows) {
  RunRows(kernels::Gemv<Weight, T, float>{weight, work.x, work.y, work.m}, rows);
}

}  // namespace

int64_t RowGrain(const StoredMatrix& matrix) {
  return matrix.format == WeightFormat::kInt4 ? kernels::kInt4TileRows : 1;
}

template <typename T>
RegionProducts<T>::RegionProducts(const Sizes& sizes, double outlier_threshold, int threads)
    : outlier_threshold_(outlier_threshold), shares_(sizes.products), scratch_(Size(threads)) {
  for (Scratch& s : scratch_) s.quantised = {sizes.vectors, sizes.widest};
}

template <typename T>
void RegionProducts<T>::Restart() {
  shares_.Restart();
  tally_ = {};
  for (Scratch& s : scratch_) s.product = 0;
}

template <typename T>
const kernels::LlmInt8Activations& RegionProducts<T>::Quantise(const Worker& worker, const RegionProduct<T>& work) {
  kernels::LlmInt8Activations& made = scratch_[Size(worker.index())].quantised;
  if constexpr (std::is_same_v<T, Bf16>) {
    const StoredMatrix& matrix = work.matrix;
    if (matrix.MultipliesIntegers()) {
      const auto threshold = static_cast<float>(matrix.Threshold(outlier_threshold_));
      Mark(worker, LlmInt8Stage::kOther);
      made.Select(work.x, work.m, matrix.columns, threshold, kernels::SerialFor());
      if (worker.index() == 0 && matrix.format == WeightFormat::kLlmInt8)
        tally_.Add(static_cast<int64_t>(made.outliers().size()));
      Mark(worker, LlmInt8Stage::kSelect);
      made.Quantize(work.x, kernels::SerialFor(), matrix.SummedGroup());
      Mark(worker, LlmInt8Stage::kQuantise);
    }
  }
  return made;
}

template <typename T>
void RegionProducts<T>::Multiply(const Worker& worker, const RegionProduct<T>& work,
                                 const kernels::LlmInt8Activations& quantised, Range rows) {
  if (rows.size() <= 0) return;
  const StoredMatrix& matrix = work.matrix;
  if constexpr (std::is_same_v<T, float>) {
    MultiplyRows(PlainWeightOf<float>(matrix, work.expert), work, rows);
  } else {
    if (matrix.MultipliesIntegers()) {
      matrix.MultiplyIntegers(work.expert, quantised, work.y, rows);
      return Mark(worker, LlmInt8Stage::kProduct);
    }
    switch (matrix.format) {
      case WeightFormat::kInt8:
        return MultiplyRows(Int8WeightOf(matrix, work.expert), work, rows);
      case WeightFormat::kInt4:
        return MultiplyRows(Int4WeightOf(matrix, work.expert), work, rows);
      default:
        return MultiplyRows(PlainWeightOf<Bf16>(matrix, work.expert), work, rows);
    }
  }
}

template <typename T>
void RegionProducts<T>::Divide(const Worker& worker, const StoredMatrix& matrix, int64_t rows,
                               kernels::FunctionRef<void(Range)> body, bool evenly) {
  const int64_t product = scratch_[Size(worker.index())].product++;
  // The stages of LLM.int8() are told piece by piece, and for as many pieces every time.
  if (evenly || matrix.format == WeightFormat::kLlmInt8) return body(worker.Own(rows, RowGrain(matrix)));
  constexpr int64_t kLeastBytes = 1 << 16;  // take microseconds
  const int64_t row_bytes = matrix.nbytes() / (matrix.experts * rows);
  const int64_t least = std::max<int64_t>(1, kLeastBytes / std::max<int64_t>(1, row_bytes));
  shares_.Divide(worker, product, rows, RowGrain(matrix), least, body);
}

template class RegionProducts<float>;
template class RegionProducts<Bf16>;

}  // namespace roofbench::models
