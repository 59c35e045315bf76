// SPDX-License-Identifier: Apache-2.0
// The matrices of linear layers in their storage formats.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "lib/kernels/operators/products/weights.h"
#include "lib/models/decoding/int8_activations.h"
#include "lib/workload/weight_format.h"

namespace roofbench::models {

// ATen's type of unquantized weights, and of the vectors between products.
at::ScalarType PlainType(workload::WeightFormat format);

// One of the equal parts into which several ranks divide a model.
struct ModelPart {
  int64_t index = 0;
  int64_t of = 1;
};

// Copies of this part of each of the tensors that are joined along a dimension of `from`, with these sizes, after each
// other into `to`.
void CopyPart(const at::Tensor& from, int64_t dimension, const std::vector<int64_t>& sizes, const ModelPart& part,
              const at::Tensor& to);

// As at::linear: x [tokens, columns] · weight [rows, columns]ᵀ (+ bias [rows]).
using LinearFunction =
    std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias)>;

// `experts` matrices [rows, columns], one after another (one, in a dense model).
//   fp32, bf16, fp16: weight [experts, rows, columns]
//   int8:     weight int8, scale fp32 [experts, rows]; w = weight · scale
//   fp8:      weight e4m3, scale as of int8
//   llm_int8: weight int8, scale fp32 [experts, rows], the largest magnitude of a row; w = weight · scale / 127
//   int4:     weight holds kernels::Int4Weight's tiles, expert after expert, as bytes
// With `int8_activations`, for int8 and int4, products round each vector to 8 bits with its own scale, as LLM.int8()
// without outliers.
struct StoredMatrix {
  workload::WeightFormat format = workload::WeightFormat::kFp32;
  int64_t experts = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t group = 0;
  at::Tensor weight = {};
  at::Tensor scale = {};
  bool int8_activations = false;

  // An uninitialized matrix.
  static StoredMatrix Empty(workload::WeightFormat format, int64_t experts, int64_t rows, int64_t columns,
                            int64_t group, at::Device device = at::kCPU);
  // Unimplemented, with the reason, if the format cannot hold rows of so many columns.
  static absl::Status Check(workload::WeightFormat format, int64_t columns, int64_t group);
  // The same for so many rows that another matrix follows.
  static absl::Status CheckJoined(workload::WeightFormat format, int64_t rows);

  // Unimplemented, with the reason, if the device does not support the format.
  static absl::Status CheckDevice(workload::WeightFormat format, at::Device device);

  // Quantizes `values` (any floating point, [n, columns]) into the rows from `first_row` on (int4: a multiple of 16).
  void Store(int64_t expert, int64_t first_row, const at::Tensor& values);
  // Stores given codes as int4: w[i, j] = (codes[i, j] - zeros[i, g]) · scales[i, g], with codes uint8 [n, columns],
  // and scales and zeros fp32 [n, groups] for groups of a multiple of this matrix's. Codes are kept; scales and zeros
  // are rounded to bf16.
  void StoreCodes(int64_t expert, int64_t first_row, const at::Tensor& codes, const at::Tensor& scales,
                  const at::Tensor& zeros);
  // Seeded normal values of the given deviation, generated in the format (int4: sixteen equally likely steps).
  void FillRandom(uint64_t seed, double deviation);

  // `count` rows from `first` on (int4: a multiple of 16) as products use them, in fp32 or `type`.
  at::Tensor Dequantized(int64_t expert, int64_t first, int64_t count, at::ScalarType type = at::kFloat) const;

  // Whether the weights are in the type of vectors.
  bool IsPlain() const { return format == workload::UnquantizedFormat(format); }
  // Whether products multiply integers by integers, and their outlier threshold if the model's is `threshold`.
  bool MultipliesIntegers() const { return format == workload::WeightFormat::kLlmInt8 || int8_activations; }
  double Threshold(double threshold) const { return format == workload::WeightFormat::kLlmInt8 ? threshold : 0; }
  // w · Steps() = weight · scale, if there is a scale.
  double Steps() const { return format == workload::WeightFormat::kLlmInt8 ? kernels::kInt8Largest : 1; }
  // int8: the first expert; int4: `count` rows of an expert from `first` on, a multiple of 16.
  kernels::Int8Weight Int8Rows() const;
  kernels::Int4Weight Int4Rows(int64_t expert, int64_t first, int64_t count) const;
  // The group of columns whose sums in a vector such products need; 0: none.
  int64_t SummedGroup() const { return format == workload::WeightFormat::kInt4 ? group : 0; }
  // Such products by our kernels, on the calling thread: y[:, range] of y [tokens, rows], for the vectors in `x`. In
  // int4 the range begins at a multiple of 16. Y: float or kernels::Bf16.
  template <typename Y>
  void MultiplyIntegers(int64_t expert, const kernels::Int8Activations& x, Y* y, kernels::Range range) const;

  // x [tokens, columns] times the transposed matrix: [tokens, rows] in x's type, by LibTorch's operations. `threshold`,
  // `marker` and `tally`: see LlmInt8Linear; `linear` replaces at::linear, by weights in x's type.
  at::Tensor Apply(const at::Tensor& x, int64_t expert, double threshold, const Int8Marker& marker = nullptr,
                   OutlierTally* tally = nullptr, const LinearFunction& linear = nullptr) const;

  // The reference for Apply: everything in fp32.
  at::Tensor ApplyExactly(const at::Tensor& x, int64_t expert, double threshold) const;

  // Copies of the matrices of some experts (int64, on the device of the weights), in their order.
  StoredMatrix Experts(const at::Tensor& chosen) const;

  // A copy of a part, with the same quantized values: of the rows of each of the matrices that are joined in this one,
  // with `joined` rows, or of the columns. A part of a row has the scale of the whole row. In int4, parts of rows are
  // whole tiles and parts of columns whole groups.
  StoredMatrix PartOfRows(const std::vector<int64_t>& joined, const ModelPart& part) const;
  StoredMatrix PartOfColumns(const ModelPart& part) const;

  int64_t nbytes() const;

 private:
  // The weights as [experts, rows, columns, elements], where in int4 a tile counts as a row, and a group as a column.
  at::Tensor Units() const;
  // Writes int4 rows from codes [count, columns], and scales and zeros [count, columns / group, 2].
  void PackInt4(int64_t expert, int64_t first_row, int64_t count, const uint8_t* codes,
                const kernels::Bf16* scales_zeros);
  // Apply and ApplyExactly for int4 with 8-bit vectors.
  at::Tensor ApplyRounded(const at::Tensor& x, int64_t expert) const;
};

}  // namespace roofbench::models
