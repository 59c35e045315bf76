// oneDNN's linear layer behind LibTorch's dispatcher, which at::mm does not use for fp32.
#pragma once

#include <ATen/core/Tensor.h>

namespace roofbench {

// x[m,k] · weight[n,k]ᵀ through oneDNN, in the operands' precision. Throws c10::Error where LibTorch was built without
// it.
at::Tensor OnednnLinear(const at::Tensor& x, const at::Tensor& weight);

}  // namespace roofbench
