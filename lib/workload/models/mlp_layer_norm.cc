// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/models/mlp_layer_norm.h"

#include "lib/workload/operators/gelu.h"
#include "lib/workload/operators/gemm.h"
#include "lib/workload/operators/norm.h"

namespace roofbench::workload {

double MlpLayerNorm::Parameters() const { return 2 * width * hidden + 3 * (width + hidden); }

Cost MlpLayerNorm::ForwardCost() const {
  const double element = ElementBytes(dtype);
  Cost cost{.resident_bytes = (Parameters() + 2 * batch * (width + hidden)) * element};
  const auto linear_and_norm = [&](double in, double out, bool activation) {
    Operation linear = Gemm{.m = batch, .n = out, .k = in, .dtype = dtype}.Forward();
    linear.bytes_read += out * element;  // bias
    Operation norm = Norm{.kind = NormKind::kLayer, .rows = batch, .cols = out, .dtype = dtype}.Forward();
    // Weight and bias in the type of the rows, not in fp32.
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
