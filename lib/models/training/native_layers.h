// SPDX-License-Identifier: Apache-2.0
// The layers of a transformer, and of a perceptron, for training on a CPU: products through oneDNN, and each layer one
// autograd function that keeps for backward what it needs and no more.
#pragma once

#include "lib/models/training/transformer_model.h"

namespace roofbench::models {

// Under autocast each layer takes and gives bf16 itself: a norm's result is rounded once and not again for every
// product that reads it, and the logits' gradient is bf16 from the start. The residual stream stays in the parameters'
// precision.
const LayerFunctions& NativeLayers();

// GELU(x [rows, in] · weight [out, in]ᵀ + bias [out]), of which backward gives no gradient by an x that wants none.
at::Tensor NativeLinearGelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace roofbench::models
