// A weight matrix, or a stack of experts, in one of the formats of weight-only inference, and its products by LibTorch
// and by our own kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "absl/status/status.h"
#include "lib/harness/case.h"
#include "lib/harness/inputs.h"
#include "lib/harness/point.h"
#include "lib/workload/weight_format.h"

namespace roofbench {

// Who multiplies, and so how the weights lie in memory. kNativeGpu: kernels::GemvArguments says how.
enum class WeightLayout { kTorch, kNative, kNativeGpu };

// Of the point's implementation on this device.
WeightLayout LayoutAt(const Point& at, const Device& device);

// Whether this device has the point's implementation for weights of `k` columns and `batch` vectors at once.
absl::Status WeightProductSupports(const Point& at, const Device& device, int64_t k, int64_t batch);

struct WeightOperand {
  workload::WeightFormat format = workload::WeightFormat::kFp32;
  int64_t experts = 1;
  int64_t n = 0;
  int64_t k = 0;
  int64_t group = 0;
  // [experts, n, k]; int4: as its layout packs it, one expert after another.
  at::Tensor data = {};
  // int8: [experts, n], in fp32 for our kernels on a CPU, else in bf16. int4, in bf16: for LibTorch scales and zeros
  // [experts, k / group, n, 2]; for our kernels on a GPU both apart [experts, n, k / group].
  at::Tensor scales = {};
  at::Tensor zeros = {};
  // [experts, rows, k] in double precision: what the sampled rows of every expert hold.
  std::function<at::Tensor()> exact_rows = {};
};

// The axis `precision` of a point with such operands.
AxisSpec PrecisionAxis(std::vector<std::string> choices);
workload::WeightFormat FormatAt(const Point& at);
// How x and y are stored.
workload::Dtype ActivationAt(const Point& at);

// Random weights: int8 rows with normal numbers of deviation 32, int4 with uniform ones, scales that differ by row or
// group. Native weights lie on huge pages. `shape` says format, experts, n, k and group.
WeightOperand MakeWeight(Inputs& in, WeightOperand shape, WeightLayout layout, const at::Tensor& rows);

// y[m, n] = x[m, k] · W[expert]ᵀ by the operator that LibTorch has for the format.
void TorchProduct(const WeightOperand& weight, int64_t expert, const at::Tensor& x, at::Tensor& y);

// A call of our kernel for the device: y[m, n] = x[m, k] · Wᵀ, or with `chosen` (int64) y[count, n] = W[chosen] · x[k].
CaseStep NativeProduct(const WeightOperand& weight, const at::Tensor& x, const at::Tensor& y, const Device& device);
CaseStep NativeGather(const WeightOperand& weight, const at::Tensor& chosen, const at::Tensor& x, const at::Tensor& y,
                      const Device& device);

}  // namespace roofbench
