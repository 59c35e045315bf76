// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/mlp.h"

#include "lib/workload/operators/gelu.h"
#include "lib/workload/operators/gemm.h"

namespace roofbench::workload {
namespace {

constexpr double kParameterBytes = 4;  // parameters and their gradients are fp32, with or without autocast
// fp32 -> bf16 (or back) for `elements` elements.
Operation Cast(double elements, double from_bytes, double to_bytes) {
  return {.bytes_read = elements * from_bytes, .bytes_written = elements * to_bytes};
}

}  // namespace

double Mlp::Parameters() const { return layers * (width * width + width); }

workload::Cost Mlp::ForwardCost() const {
  const double bytes = ElementBytes(compute);
  const Gemm product{.m = batch, .n = width, .k = width, .dtype = compute};
  workload::Cost cost{.resident_bytes = ResidentBytes()};
  Operation linear = product.Forward();
  linear.bytes_read += width * bytes;  // bias
  linear.repeat = layers;
  Operation gelu = Gelu{.elements = batch * width, .dtype = compute}.Forward();
  gelu.repeat = layers;
  cost.operations = {linear, gelu};
  if (compute != Dtype::kFp32 && compute != Dtype::kTf32) {
    Operation cast = Cast(width * width + width, kParameterBytes, bytes);
    cast.repeat = layers;
    cost.operations.push_back(cast);
    cost.operations.push_back(Cast(batch * width, kParameterBytes, bytes));  // the input
  }
  return cost;
}

workload::Cost Mlp::BackwardCost() const {
  const double bytes = ElementBytes(compute);
  const Gemm product{.m = batch, .n = width, .k = width, .dtype = compute};
  auto [input_gradient, weight_gradient] = product.Backward();
  input_gradient.repeat = layers - 1;
  weight_gradient.repeat = layers;
  Operation gelu = Gelu{.elements = batch * width, .dtype = compute}.Backward();
  gelu.repeat = layers;
  Operation bias = {.bytes_read = batch * width * bytes, .bytes_written = width * bytes, .repeat = layers};
  bias.flops[Index(Dtype::kFp32)] = batch * width;
  workload::Cost cost{.operations = {weight_gradient, gelu, bias}, .resident_bytes = ResidentBytes()};
  if (layers > 1) cost.operations.push_back(input_gradient);
  if (compute != Dtype::kFp32 && compute != Dtype::kTf32) {
    Operation cast = Cast(width * width + width, bytes, kParameterBytes);
    cast.repeat = layers;
    cost.operations.push_back(cast);
  }
  return cost;
}

workload::Cost Mlp::TrainingCost(double steps) const {
  workload::Cost cost = ForwardCost();
  workload::Cost backward = BackwardCost();
  cost.operations.insert(cost.operations.end(), backward.operations.begin(), backward.operations.end());
  return Repeated(cost, steps);
}

double Mlp::ResidentBytes() const {
  const double bytes = ElementBytes(compute);
  const double activations = (2 * layers + 1) * batch * width * bytes;
  const double low_precision_weights = bytes < kParameterBytes ? Parameters() * bytes : 0;
  const double in_flight = 2 * batch * width * bytes;  // the gradient that flows and the one being made
  return 2 * Parameters() * kParameterBytes + low_precision_weights + activations + in_flight;
}

}  // namespace roofbench::workload
