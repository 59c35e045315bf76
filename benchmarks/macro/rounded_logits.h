// SPDX-License-Identifier: Apache-2.0
// How far the precision of a model alone takes its logits.
#pragma once

#include <ATen/core/Tensor.h>

#include "benchmarks/macro/language_model.h"

namespace roofbench {

// As ExactLogits, the logits [batch, vocab] after `tokens` [batch, n], but with what passes from one operation to the
// next rounded to the model's format: not what a decoder computes, but as far from exact as an honest one.
at::Tensor RoundedLogits(const LoadedModel& model, const at::Tensor& tokens);

}  // namespace roofbench
