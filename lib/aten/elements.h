// SPDX-License-Identifier: Apache-2.0
// Conversions of tensors to the arguments of our own kernels.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/workload/dtype.h"

namespace roofbench {

// The elements of a tensor as the kernels' type, which must match the tensor's.
template <typename T>
T* Elements(const at::Tensor& tensor) {
  return tensor.mutable_data_ptr<T>();
}
template <>
inline kernels::Bf16* Elements<kernels::Bf16>(const at::Tensor& tensor) {
  return reinterpret_cast<kernels::Bf16*>(tensor.mutable_data_ptr<at::BFloat16>());
}
template <>
inline kernels::Fp16* Elements<kernels::Fp16>(const at::Tensor& tensor) {
  return reinterpret_cast<kernels::Fp16*>(tensor.mutable_data_ptr<at::Half>());
}

// Calls function(T()) with the element type of a tensor: float or Bf16. Throws c10::Error for any other.
template <typename Function>
auto WithElement(const at::Tensor& tensor, Function function) {
  if (tensor.scalar_type() == at::kBFloat16) return function(kernels::Bf16());
  TORCH_CHECK(tensor.scalar_type() == at::kFloat, "our own kernels compute in fp32 and bf16, not in ",
              tensor.scalar_type());
  return function(float());
}

// Calls function(T()) with the element type of a precision: Bf16 for bf16, else float.
template <typename Function>
auto WithDtype(workload::Dtype dtype, Function function) {
  return dtype == workload::Dtype::kBf16 ? function(kernels::Bf16()) : function(float());
}

// A thread pool of LibTorch's threads.
inline kernels::ThreadPool TorchThreads() { return kernels::ThreadPool(at::get_num_threads()); }

}  // namespace roofbench
