// SPDX-License-Identifier: Apache-2.0
// oneDNN's linear layer, plain and with prepacked weights, behind LibTorch's dispatcher, which at::mm does not use for
// fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace roofbench {

// x[m,k] · weight[n,k]ᵀ (+ bias[n]) through oneDNN, in the operands' precision. Throws c10::Error where LibTorch was
// built without it.
at::Tensor OnednnLinear(const at::Tensor& x, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias = std::nullopt);

// The weight in the layout that oneDNN likes best for `m` rows of x: an opaque tensor for OnednnLinear. Throws
// likewise.
at::Tensor OnednnPack(const at::Tensor& weight, int64_t m);

}  // namespace roofbench
