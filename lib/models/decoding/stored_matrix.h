// SPDX-License-Identifier: Apache-2.0
// The matrices of linear layers in their storage formats.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/status/status.h"
#include "lib/models/decoding/llm_int8.h"
#include "lib/workload/weight_format.h"

namespace roofbench::models {

// How ATen stores weights that are not quantised, and the vectors between products.
at::ScalarType PlainType(workload::WeightFormat format);

// `experts` matrices [rows, columns], one after another (one, in a dense model).
//   fp32, bf16, fp16: weight [experts, rows, columns]
//   int8:     weight int8, scale fp32 [experts, rows]; w = weight · scale
//   llm_int8: weight int8, scale fp32 [experts, rows], the largest magnitude of a row; w = weight · scale / 127
//   int4:     weight holds kernels::Int4Weight's tiles, expert after expert, as bytes
// With `int8_activations`, which int8 and int4 take, each vector is rounded to 8 bits with a scale of its own before it
// is multiplied, as LLM.int8() does without outliers.
struct StoredMatrix {
  workload::WeightFormat format = workload::WeightFormat::kFp32;
  int64_t experts = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t group = 0;
  at::Tensor weight = {};
  at::Tensor scale = {};
  bool int8_activations = false;

  // Memory for the matrix, without values.
  static StoredMatrix Empty(workload::WeightFormat format, int64_t experts, int64_t rows, int64_t columns,
                            int64_t group, at::Device device = at::kCPU);
  // Unimplemented with the reason where the format cannot hold such a matrix.
  static absl::Status Check(workload::WeightFormat format, int64_t rows, int64_t columns, int64_t group);

  // Unimplemented with the reason where matrices of the format cannot lie on the device.
  static absl::Status CheckDevice(workload::WeightFormat format, at::Device device);

  // Quantises `values` (any floating point, [n, columns]) into the rows from `first_row` on (int4: a multiple of 16).
  void Store(int64_t expert, int64_t first_row, const at::Tensor& values);
  // Into int4, codes that somebody else has found: w[i, j] = (codes[i, j] - zeros[i, g]) · scales[i, g], with codes
  // uint8 [n, columns], the others fp32 [n, groups], in groups of a multiple of this matrix's. The codes stay what they
  // are; scale and zero are rounded to bf16, as those of all int4.
  void StoreCodes(int64_t expert, int64_t first_row, const at::Tensor& codes, const at::Tensor& scales,
                  const at::Tensor& zeros);
  // Seeded normal values of the given deviation (int4: sixteen even steps of it), made in the format itself.
  void FillRandom(uint64_t seed, double deviation);

  // `count` rows of the matrix that products see, from `first` on (int4: a multiple of 16), in fp32 or `type`.
  at::Tensor Dequantised(int64_t expert, int64_t first, int64_t count, at::ScalarType type = at::kFloat) const;

  // Whether products are made of integers on both sides; with this threshold for outliers where the model's is
  // `threshold`.
  bool MultipliesIntegers() const { return format == workload::WeightFormat::kLlmInt8 || int8_activations; }
  double Threshold(double threshold) const { return format == workload::WeightFormat::kLlmInt8 ? threshold : 0; }
  // The groups of columns whose sums such products want of a vector; 0: none.
  int64_t SummedGroup() const { return format == workload::WeightFormat::kInt4 ? group : 0; }
  // Those by our kernels, on the calling thread: y[:, range] of y [tokens, rows], of the vectors that `x` holds. In
  // int4 the range begins with a multiple of 16. Y: float or kernels::Bf16.
  template <typename Y>
  void MultiplyIntegers(int64_t expert, const kernels::LlmInt8Activations& x, Y* y, kernels::Range range) const;

  // x [tokens, columns] times the transposed matrix: [tokens, rows] in x's type, by LibTorch's operations. `threshold`,
  // `marker` and `tally` are LLM.int8()'s.
  at::Tensor Apply(const at::Tensor& x, int64_t expert, double threshold, const LlmInt8Marker& marker = nullptr,
                   LlmInt8Tally* tally = nullptr) const;

  // The same in fp32, x too: what Apply is held against.
  at::Tensor ApplyExactly(const at::Tensor& x, int64_t expert, double threshold) const;

  // Copies of the matrices of some experts (int64, on the device of the weights), in their order.
  StoredMatrix Experts(const at::Tensor& chosen) const;

  int64_t nbytes() const;

 private:
  LlmInt8Matrix Int8Of(int64_t expert) const;
  // Apply and ApplyExactly of int4, by vectors in 8 bits.
  at::Tensor ApplyRounded(const at::Tensor& x, int64_t expert) const;
};

}  // namespace roofbench::models
