// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/mlp.h"

#include <algorithm>

#include "lib/workload/operators/elementwise.h"
#include "lib/workload/operators/products.h"
#include "lib/workload/operators/rows.h"

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
  const Operation bias{.bytes_read = batch * width * bytes, .bytes_written = width * bytes, .repeat = layers};
  workload::Cost cost{.operations = {weight_gradient, gelu, bias.WithFlops(Dtype::kFp32, batch * width)},
                      .resident_bytes = ResidentBytes()};
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
  cost += BackwardCost();
  cost.resident_bytes = ResidentBytes();
  return Repeated(cost, steps);
}

double Mlp::ResidentBytes() const {
  const bool casts = ElementBytes(compute) < kParameterBytes;
  const double rows = batch * width;
  const double parameters = width * width + width;  // of a layer
  const double activation = rows * ElementBytes(compute);
  const double gradient = parameters * kParameterBytes;
  const double cast = casts ? parameters * ElementBytes(compute) : 0;  // of a weight, or its gradient before it
  // The parameters, the input and the gradient of the output, the last output; rounded, that gradient too.
  const double always = Parameters() * kParameterBytes + 2 * rows * kParameterBytes + (casts ? 2 : 1) * activation;
  // The peak while backward is in a layer, counted from 1: those above it have their gradients, and those below it the
  // input and output of their products, and their rounded weights.
  const auto in_layer = [&](double layer) {
    const bool is_first = layer == 1;  // whose input takes no gradient, nor keeps a weight for it
    const double held = always + (layers - layer) * gradient + (layer - 1) * 2 * activation;
    const double of_rows = is_first ? activation : 2 * activation;  // the gradient that came, and the one that goes
    if (!casts) return held + of_rows + gradient;
    const double product = activation + of_rows + (layer - 1) * cast + cast;  // with the rounded input of the first
    const double converted = (is_first ? 0 : 2 * activation + (layer - 2) * cast) + cast + gradient;
    return held + std::max(product, converted);
  };
  return std::max({in_layer(1), in_layer(std::min(2.0, layers)), in_layer(layers)});  // linear from the second on
}

double MlpLayerNorm::Parameters() const { return 2 * width * hidden + 3 * (width + hidden); }

Cost MlpLayerNorm::ForwardCost() const {
  const double element = ElementBytes(dtype);
  Cost cost{.resident_bytes = (Parameters() + 2 * batch * (width + hidden)) * element};
  const auto linear_and_norm = [&](double in, double out, bool activation) {
    Operation linear = Gemm{.m = batch, .n = out, .k = in, .dtype = dtype}.Forward();
    linear.bytes_read += out * element;  // bias
    Operation norm = Norm{.kind = NormKind::kLayer, .rows = batch, .cols = out, .dtype = dtype}.Forward();
    // Weight and bias are in the type of the rows, not in fp32.
    norm.bytes_read -= 2 * out * (ElementBytes(Dtype::kFp32) - element);
    cost.operations.push_back(linear);
    cost.operations.push_back(norm);
    if (activation) cost.operations.push_back(Gelu{.elements = batch * out, .dtype = dtype}.Forward());
  };
  linear_and_norm(width, hidden, gelu);
  linear_and_norm(hidden, width, false);
  return cost;
}

}  // namespace roofbench::workload
