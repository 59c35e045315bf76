// SPDX-License-Identifier: Apache-2.0
// ATen's storage type of a precision, and what tensors store.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <stdexcept>
#include <vector>

#include "lib/workload/dtype.h"

namespace roofbench {

// tf32 is stored as fp32.
inline at::ScalarType StorageType(workload::Dtype dtype) {
  switch (dtype) {
    case workload::Dtype::kFp32:
    case workload::Dtype::kTf32:
      return at::kFloat;
    case workload::Dtype::kBf16:
      return at::kBFloat16;
    case workload::Dtype::kFp16:
      return at::kHalf;
    case workload::Dtype::kInt8:
      return at::kChar;
    case workload::Dtype::kFp8:
      return at::kFloat8_e4m3fn;
    case workload::Dtype::kFp64:
      return at::kDouble;
  }
  throw std::logic_error("unknown precision");
}

inline double BytesOf(const std::vector<at::Tensor>& tensors) {
  double bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

}  // namespace roofbench
