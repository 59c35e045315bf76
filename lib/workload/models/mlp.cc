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

std::vector<Mlp::Layer> Mlp::Layers() const {
  const double whole = batch * width * ElementBytes(compute);
  const double part = whole / parts;
  std::vector<Layer> all(static_cast<std::size_t>(layers));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_divided = i % 2 == 0;  // its features, and so its bias; the next one sums
    all[i] = {.parameters = (width * width / parts + width / (is_divided ? parts : 1)) * kParameterBytes,
              .in = i == 0       ? 0
                    : is_divided ? whole
                                 : part,
              .out = is_divided ? part : whole};
  }
  return all;
}

double Mlp::ResidentBytes() const {
  const bool casts = ElementBytes(compute) < kParameterBytes;
  const double rows = batch * width;
  const double activation = rows * ElementBytes(compute);
  // A weight as it is computed with, or its gradient.
  const double cast = casts ? (width * width + width) * ElementBytes(compute) : 0;
  const std::vector<Layer> all = Layers();
  // The input and the gradient of the output, the last output; rounded, that gradient too.
  double held = 2 * rows * kParameterBytes + (casts ? 2 : 1) * activation;
  for (const Layer& layer : all) held += layer.parameters + layer.in + layer.out;
  // While backward is in a layer, those above it have their gradients, and those below it the input and output of their
  // products, and their rounded weights.
  double peak = 0;
  for (std::size_t i = all.size(); i-- > 0;) {
    const Layer& layer = all[i];
    // The GELU's two gradients; the one that comes to the last layer is the output's.
    if (!casts) peak = std::max(peak, held + (i + 1 == all.size() ? 1 : 2) * layer.out);
    held -= layer.out;
    const double of_rows = layer.out + layer.in;  // the gradient that came, and the one that goes
    if (casts) {
      const auto below = static_cast<double>(i);
      const double product = activation + of_rows + (below + 1) * cast;  // with the rounded input of the first
      // The first one's weight is not kept: its input takes no gradient.
      const double converted = (i == 0 ? 0 : 2 * activation + (below - 1) * cast) + cast + layer.parameters;
      peak = std::max(peak, held + std::max(product, converted));
    } else {
      peak = std::max(peak, held + of_rows + layer.parameters);
    }
    held += layer.parameters - layer.in;
  }
  return peak;
}

std::vector<StepUnit> Mlp::Units() const {
  std::vector<StepUnit> units;
  const std::vector<Layer> all = Layers();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [parameters, in, out] = all[i];
    // With its input and output, the GELU holds two gradients, of which the output's is not the last layer's own; with
    // the input, the product holds two gradients of rows and those of its parameters.
    const double gelu = in + out + (i + 1 == all.size() ? 1 : 2) * out;
    const double product = 2 * in + out + parameters;
    const double bias = width * kParameterBytes / (i % 2 == 0 ? parts : 1);
    const double cast = i > 0 && ElementBytes(compute) < kParameterBytes ? width * width * ElementBytes(compute) : 0;
    units.push_back({.parameters = parameters,
                     .kept = in + out + cast,
                     .computes = std::max(gelu, product),
                     .passes = in,
                     .gradients = {parameters - bias, bias},
                     .at_once = true});
  }
  return units;
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
