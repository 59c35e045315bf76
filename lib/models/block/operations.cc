// SPDX-License-Identifier: Apache-2.0
#include "lib/models/block/operations.h"

#include <ATen/ops/rms_norm.h>

namespace roofbench::models {

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, weight, epsilon);
}

at::Tensor SplitHeads(const at::Tensor& x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

at::Tensor MergeHeads(const at::Tensor& x) { return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1}); }

}  // namespace roofbench::models
