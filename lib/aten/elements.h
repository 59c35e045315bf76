// SPDX-License-Identifier: Apache-2.0
// How models, and the cases of benchmarks, hand tensors to our own kernels.
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

// The elements of a tensor as the kernels name their type; the tensor must have it.
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

// function(T()) for the element type of a tensor: float or Bf16. Throws c10::Error for any other.
template <typename Function>
auto WithElement(const at::Tensor& tensor, Function function) {
  if (tensor.scalar_type() == at::kBFloat16) return function(kernels::Bf16());
  TORCH_CHECK(tensor.scalar_type() == at::kFloat, "our own kernels compute in fp32 and bf16, not in ",
              tensor.scalar_type());
  return function(float());
}

// function(T()) for the element type of a precision: Bf16 for bf16, else float.
template <typename Function>
auto WithDtype(workload::Dtype dtype, Function function) {
  return dtype == workload::Dtype::kBf16 ? function(kernels::Bf16()) : function(float());
}

// LibTorch's threads.
inline kernels::ThreadPool TorchThreads() { return kernels::ThreadPool(at::get_num_threads()); }

}  // namespace roofbench
