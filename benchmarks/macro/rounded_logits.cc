// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/macro/rounded_logits.h"

#include <ATen/core/grad_mode.h>

#include "lib/models/decoding/eager_decoder.h"

namespace roofbench {

at::Tensor RoundedLogits(const LoadedModel& model, const at::Tensor& tokens) {
  const at::NoGradGuard no_grad;
  models::EagerDecoder rounded(model.weights, tokens.size(0), tokens.size(1), models::Arithmetic::kRounded);
  return rounded.Append(tokens.contiguous()).clone();
}

}  // namespace roofbench
