// SPDX-License-Identifier: Apache-2.0
// gpt_fast's "mlp_layer_norm_gelu": Linear(d → hidden), LayerNorm, [GELU,] Linear(hidden → d), LayerNorm. As published
// it has no GELU and one row, so that it is bound by the bytes of its weights and not, as its name of a target says, by
// arithmetic.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// Linears have a bias; all parameters are stored in `dtype`.
struct MlpLayerNorm {
  double batch = 1;  // rows of the input
  double width = 0;  // d
  double hidden = 0;
  bool gelu = false;
  Dtype dtype = Dtype::kBf16;

  // 2·d·hidden weights, and for each linear its bias and its norm's weight and bias.
  double Parameters() const;
  Cost ForwardCost() const;
};

}  // namespace roofbench::workload
