// SPDX-License-Identifier: Apache-2.0
// A weight matrix, or a stack of experts, in one of the formats of weight-only inference, and its product with a vector
// or a few by LibTorch and by our own kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "lib/suite/family_of.h"
#include "lib/workload/weight_format.h"

namespace roofbench {

struct WeightOperand {
  workload::WeightFormat format = workload::WeightFormat::kFp32;
  int64_t experts = 1;
  int64_t n = 0;
  int64_t k = 0;
  int64_t group = 0;
  // [experts, n, k]; int4: as its layout packs it, one expert after another.
  at::Tensor data = {};
  // int8: [experts, n], in fp32 for our kernels, else in bf16. int4, in bf16: for LibTorch scales and zeros
  // [experts, k / group, n, 2]; for our kernels on a GPU both apart [experts, n, k / group].
  at::Tensor scales = {};
  at::Tensor zeros = {};
  // [experts, rows, k] in double precision: the sampled rows of every expert.
  std::function<at::Tensor()> exact_rows = {};
  at::Tensor column_sums = {};  // [experts, k] in double precision: over all rows
};

// y[m, n] = x[m, k] · Wᵀ, or y[count, n] = W[chosen] · x[k].
struct WeightProduct {
  at::Tensor rows;  // of W that are compared
  WeightOperand weight;
  at::Tensor x, y;
  at::Tensor chosen = {};  // int64: experts; undefined: the only one
};

inline bool IsInt8(const WeightProduct& o) { return o.weight.format == workload::WeightFormat::kInt8; }

// The axis `precision` of a point, and the type of x and y.
workload::WeightFormat FormatAt(const Point& at);
workload::Dtype ActivationAt(const Point& at);

// The cost of a product for the point's implementation: impl:onednn packs `matrices`, and has them twice meanwhile.
workload::Cost CostAt(const Point& at, workload::Cost cost, double matrices);

// Random weights: int8 normal with a deviation of 32, int4 uniform, with different scales for each row or group, in the
// layout of the point's implementation on this device, on huge pages for ours on a CPU. `shape` sets experts, n, k and
// group.
WeightOperand MakeWeight(const Point& at, Inputs& in, WeightOperand shape, const at::Tensor& rows);

// Whether LibTorch's operator for int8 weights on the device supports rows of `k`; OK for other formats.
absl::Status TorchTakes(const Point& at, int64_t k, const Device& device);

// y[m, n] = x[m, k] · W[expert]ᵀ by LibTorch's operator for the format.
void TorchProduct(const WeightOperand& weight, int64_t expert, const at::Tensor& x, at::Tensor& y);

// A family of such products with the axis `precision`, their result and impl:native; `k` is the axis of W's columns.
FamilyOf<WeightProduct> WeightProducts(std::string name, std::string doc, const AxisList& precisions, std::string k);

}  // namespace roofbench
