// SPDX-License-Identifier: Apache-2.0
// Cases that CUDA refuses and the CPU accepts, from the sources of LibTorch 2.11 (aten/src/ATen/native/cuda): one row
// per operator.

#include <c10/util/Exception.h>

#include "tests/device/accelerator/state.h"

namespace roofbench::accelerator {
namespace {

using torch::jit::Stack;

void SameType(const Stack& arguments, std::size_t x, std::size_t weight) {
  if (!arguments[weight].isTensor() || !arguments[weight].toTensor().defined()) return;
  TORCH_CHECK(arguments[x].toTensor().scalar_type() == arguments[weight].toTensor().scalar_type(),
              "expected weight of ", arguments[x].toTensor().scalar_type(), " but found ",
              arguments[weight].toTensor().scalar_type());
}

// layer_norm_kernel.cu: weight and bias have the type of x.
void LayerNorm(const Stack& arguments) {
  SameType(arguments, 0, 2);
  SameType(arguments, 0, 3);
}
void LayerNormBackward(const Stack& arguments) {
  SameType(arguments, 1, 5);
  SameType(arguments, 1, 6);
}

// Blas.cpp, _int_mm_out_cuda: cuBLASLt multiplies a row-major A by a column-major B alone.
void IntProduct(const Stack& arguments) {
  const at::Tensor a = arguments[0].toTensor();
  const at::Tensor b = arguments[1].toTensor();
  TORCH_CHECK(a.size(0) > 16, "self.size(0) needs to be greater than 16, but got ", a.size(0));
  TORCH_CHECK(a.size(1) % 8 == 0 && b.size(1) % 8 == 0, "self.size(1) and mat2.size(1) need to be multiples of 8");
  TORCH_CHECK(b.stride(0) == 1 && b.stride(1) >= b.size(0), "CUBLAS_STATUS_NOT_SUPPORTED: B is row-major");
}

// int8mm.cu: bf16 activations, whole rows of int8, one scale per row.
void PackedInt8Product(const Stack& arguments) {
  const at::Tensor x = arguments[0].toTensor();
  const at::Tensor weight = arguments[1].toTensor();
  const at::Tensor scales = arguments[2].toTensor();
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous(), "expected contiguous operands");
  TORCH_CHECK(weight.scalar_type() == at::kChar && scales.dim() == 1 && scales.size(0) == weight.size(0));
}

// FusedAdamKernel.cu: the steps are counted on the device.
void FusedAdamW(const Stack& arguments) {
  for (const at::Tensor& step : arguments[5].toTensorVector()) {
    TORCH_CHECK(IsOnDevice(step), "params, grads, exp_avgs and state_steps must be on one device");
  }
}

// No rules for nll_loss and embedding, which do not check their indices, nor for cross entropy, which is composed of
// other operators.
struct Rule {
  const char* name;
  void (*check)(const Stack& arguments);
};
constexpr Rule kRules[] = {
    {"aten::native_layer_norm", LayerNorm}, {"aten::native_layer_norm_backward", LayerNormBackward},
    {"aten::_int_mm", IntProduct},          {"aten::_weight_int8pack_mm", PackedInt8Product},
    {"aten::_fused_adamw_", FusedAdamW},
};

}  // namespace

void CheckRules(const std::string& name, const Stack& arguments) {
  for (const Rule& rule : kRules) {
    if (name == rule.name) rule.check(arguments);
  }
}

}  // namespace roofbench::accelerator
